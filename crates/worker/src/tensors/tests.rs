use std::fs;

use super::*;
use proptest::prelude::*;

/// A `.npy` file in NumPy's layout: 128 bytes before the values.
fn npy(version: u8, dictionary: &str, values: &[u8]) -> Vec<u8> {
    let before = if version == 1 { 10 } else { 12 };
    let header = format!("{dictionary:<width$}\n", width = 127 - before);
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}

fn le(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn decode_npy(bytes: &[u8]) -> Result<TensorFile, TensorError> {
    TensorFile::decode(Path::new("a.npy"), Format::Npy, bytes)
}

fn decode_safetensors(bytes: &[u8]) -> Result<TensorFile, TensorError> {
    TensorFile::decode(Path::new("a.safetensors"), Format::SafeTensors, bytes)
}

/// A `.safetensors` file with this header.
fn safetensors_file(header: &str, values: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}

fn tensor(name: &str, shape: &[usize], data: Data) -> NamedTensor {
    NamedTensor { name: name.into(), shape: shape.into(), data }
}

fn file(path: &str, tensors: Vec<NamedTensor>) -> TensorFile {
    TensorFile {
        path: path.into(),
        format: Format::of(Path::new(path)).unwrap(),
        metadata: BTreeMap::new(),
        tensors,
    }
}

fn message<T: fmt::Debug>(result: Result<T, TensorError>) -> String {
    let message = result.unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message:?}");
    message
}

const PLAIN: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
const SIX: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, -5.5];

/// Files of NumPy and of Python's safetensors; `testdata/README.md` describes how they were made.
#[test]
fn files_of_the_original_libraries() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let whole = (0..24).map(|n| 100 * (n / 12) + 10 * (n / 4 % 3) + n % 4);
    let integers = Data::I32(whole.clone().collect());
    let floats = Data::F32(whole.map(|v| v as f32 - 0.5).collect());
    let read = |name: &str| TensorFile::read(&directory.join(name));
    for (name, data) in [
        ("f32.npy", &floats),
        ("f32-big-endian.npy", &floats),
        ("f32-fortran.npy", &floats),
        ("f32-version-2.npy", &floats),
        ("f32-version-3.npy", &floats),
        ("i32.npy", &integers),
        ("i32-big-endian-fortran.npy", &integers),
    ] {
        let expected = tensor(NPY_TENSOR, &[2, 3, 4], data.clone());
        assert_eq!(read(name).unwrap().tensors, [expected], "{name}");
    }
    // Where NumPy writes version 1.0, little-endian, C order, our bytes are identical.
    for name in ["f32.npy", "i32.npy", "f32-scalar.npy"] {
        let bytes = fs::read(directory.join(name)).unwrap();
        assert_eq!(read(name).unwrap().encode().unwrap(), bytes, "{name}");
    }
    let scalar = tensor(NPY_TENSOR, &[], Data::F32(vec![1.5]));
    assert_eq!(read("f32-scalar.npy").unwrap().tensors, [scalar]);
    let both = [tensor("b", &[2, 3, 4], integers), tensor("w", &[2, 3, 4], floats)];
    let read_both = read("both.safetensors").unwrap();
    assert_eq!(read_both.tensors, both);
    assert_eq!(read_both.metadata["format"], "np");
    assert!(message(read("f64.npy")).contains("dtype f64"));
    assert!(message(read("structured.npy")).contains("dtype structured"));
}

#[test]
fn npy_versions() {
    for version in [1, 2, 3] {
        let read = decode_npy(&npy(version, PLAIN, &le(&SIX))).unwrap();
        let expected = tensor(NPY_TENSOR, &[2, 3], Data::F32(SIX.into()));
        assert_eq!(read.tensors, [expected], "version {version}");
    }
    let other = npy(4, PLAIN, &le(&SIX));
    assert!(message(decode_npy(&other)).contains("version 4.0"));
}

#[test]
fn npy_byte_orders_and_integers() {
    let big: Vec<u8> = SIX.iter().flat_map(|v| v.to_be_bytes()).collect();
    let read = decode_npy(&npy(1, &PLAIN.replace('<', ">"), &big)).unwrap();
    assert_eq!(read.tensors[0].data, Data::F32(SIX.into()));

    let integers = [i32::MIN, -1, 0, 1, 258, i32::MAX];
    let little: Vec<u8> = integers.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big: Vec<u8> = integers.iter().flat_map(|v| v.to_be_bytes()).collect();
    for (descr, bytes) in [("<i4", little), (">i4", big)] {
        let read = decode_npy(&npy(1, &PLAIN.replace("<f4", descr), &bytes)).unwrap();
        assert_eq!(read.tensors[0].data, Data::I32(integers.into()), "{descr}");
    }
}

/// A Fortran-ordered file stores columns first; in memory rows come first.
#[test]
fn npy_fortran_order() {
    let header = PLAIN.replace("False", "True");
    let read = decode_npy(&npy(1, &header, &le(&[0.0, 3.0, 1.0, 4.0, 2.0, -5.5]))).unwrap();
    assert_eq!(read.tensors[0].data, Data::F32(SIX.into()));

    // Three axes: the value at [i, j, k] of shape (2, 3, 4) is 100 i + 10 j + k.
    let (mut stored, mut expected) = (Vec::new(), Vec::new());
    for k in 0..4 {
        for j in 0..3 {
            stored.extend((0..2).map(|i| (100 * i + 10 * j + k) as f32));
        }
    }
    for i in 0..2 {
        for j in 0..3 {
            expected.extend((0..4).map(|k| (100 * i + 10 * j + k) as f32));
        }
    }
    let header = header.replace("(2, 3)", "(2, 3, 4)");
    let read = decode_npy(&npy(1, &header, &le(&stored))).unwrap();
    assert_eq!(read.tensors[0].data, Data::F32(expected));
}

#[test]
fn npy_scalars_and_empty_arrays() {
    for (shape, expected, values) in [
        ("()", vec![], &SIX[..1]),
        ("(1,)", vec![1], &SIX[..1]),
        ("(0,)", vec![0], &[]),
        ("(3, 0, 2)", vec![3, 0, 2], &[]),
        ("(0, 9223372036854775807, 1)", vec![0, i64::MAX as usize, 1], &[]),
    ] {
        for order in ["False", "True"] {
            let header = PLAIN.replace("(2, 3)", shape).replace("False", order);
            let read = decode_npy(&npy(1, &header, &le(values))).unwrap();
            assert_eq!(read.tensors[0].shape, expected);
            assert_eq!(read.tensors[0].data, Data::F32(values.into()));
        }
    }
}

#[test]
fn npy_headers_in_other_notations() {
    for header in [
        r#"{"shape":(2,3),"descr":"<f4","fortran_order":False}"#,
        "{ 'descr' : '<f4' , 'fortran_order' : False , 'shape' : [ 2 , 3 ] }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
    ] {
        let read = decode_npy(&npy(1, header, &le(&SIX))).unwrap();
        assert_eq!(read.tensors[0].shape, [2, 3], "{header}");
    }
}

#[test]
fn other_dtypes_of_npy_are_named() {
    for (descr, named) in [
        ("'<f8'", "f64"),
        ("'<f2'", "f16"),
        ("'>i8'", "i64"),
        ("'|u1'", "u8"),
        ("'|b1'", "|b1"),
        ("'<c8'", "<c8"),
        ("'<U7'", "<U7"),
        ("'|O'", "|O"),
        ("''", "\"\""),
        ("[('a', '<f4')]", "structured"),
    ] {
        let error = message(decode_npy(&npy(1, &PLAIN.replace("'<f4'", descr), &[])));
        assert!(error.starts_with("a.npy: "), "{error}");
        assert!(error.contains(named), "{error}");
        assert!(error.contains("only f32 and i32"), "{error}");
    }
}

#[test]
fn npy_malformed() {
    let with = |header: &str| message(decode_npy(&npy(1, header, &le(&SIX))));
    for (header, part) in [
        ("", "'{' must come where its end is"),
        ("[1]", "'{' must come where '[' is"),
        ("{}", "no \"descr\""),
        ("{'descr': '<f4'", "'}' must come where its end is"),
        ("{'descr': '<f4}", "does not end"),
        (&PLAIN.replace("False", "0"), "True or False"),
        (&PLAIN.replace("(2, 3)", "6"), "a shape"),
        (&PLAIN.replace("(2, 3)", "(2, -3)"), "length of an axis"),
        (&PLAIN.replace("(2, 3)", "(2 3)"), "')' must come where '3' is"),
        (&PLAIN.replace("(2, 3)", "(99999999999999999999,)"), "too large"),
        (&PLAIN.replace("(2, 3)", "(4294967296, 4294967296)"), "too large"),
        (&PLAIN.replace("(2, 3)", "(4611686018427387904,)"), "too large"),
        (&PLAIN.replace("'shape'", "'form'"), "unknown entry \"form\""),
        (&PLAIN.replace("'shape'", "'descr'"), "structure"),
        (&PLAIN.replace("}", "'descr': '<f4'}"), "\"descr\" twice"),
        (&format!("{PLAIN}1"), "goes on after"),
        (&PLAIN.replace("(2, 3)", "(2, 4)"), "takes 32 bytes, but 24"),
        (&PLAIN.replace("(2, 3)", "(5,)"), "(5,) takes 20 bytes, but 24"),
    ] {
        // A key 'descr' with a shape as its value is not a string.
        let part = if part == "structure" { "a string must come" } else { part };
        let error = with(header);
        assert!(error.contains(part), "{header}: {error}");
    }
    let many_axes = format!("({})", "1,".repeat(65));
    let header = PLAIN.replace("(2, 3)", &many_axes);
    let mut long = b"\x93NUMPY\x01\x00".to_vec();
    long.extend((header.len() as u16).to_le_bytes());
    long.extend(header.as_bytes());
    long.extend(le(&[1.0]));
    assert!(message(decode_npy(&long)).contains("65 axes"));

    assert!(message(decode_npy(b"")).contains("not a .npy file"));
    assert!(message(decode_npy(b"PK\x03\x04")).contains("not a .npy file"));
}

/// Deep nesting would overflow the stack of a recursive parser.
#[test]
fn npy_deep_nesting_is_harmless() {
    for open in ["(", "[", "{", "{'descr':", "{'shape':("] {
        let header = open.repeat(1_000_000);
        let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header.as_bytes());
        message(decode_npy(&bytes));
    }
}

#[test]
fn every_truncation_is_an_error() {
    let whole = npy(1, PLAIN, &le(&SIX));
    for length in 0..whole.len() {
        message(decode_npy(&whole[..length]));
    }
    let tensors =
        vec![tensor("a", &[2, 3], Data::F32(SIX.into())), tensor("b", &[2], Data::I32(vec![1, 2]))];
    let whole = file("x.safetensors", tensors).encode().unwrap();
    for length in 0..whole.len() {
        message(decode_safetensors(&whole[..length]));
    }
}

#[test]
fn safetensors_sorted_by_name_with_metadata() {
    let header = r#"{"__metadata__":{"format":"pt","b":"2","a":"1"},
        "z":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},
        "é\n":{"dtype":"I32","shape":[],"data_offsets":[16,20]},
        "b":{"dtype":"F32","shape":[0,7],"data_offsets":[20,20]}}"#;
    let mut values = le(&[1.0, 2.0, 3.0, 4.0]);
    values.extend((-7i32).to_le_bytes());
    let read = decode_safetensors(&safetensors_file(header, &values)).unwrap();
    let expected = [
        tensor("b", &[0, 7], Data::F32(vec![])),
        tensor("z", &[2, 2], Data::F32(vec![1.0, 2.0, 3.0, 4.0])),
        tensor("é\n", &[], Data::I32(vec![-7])),
    ];
    assert_eq!(read.tensors, expected);
    assert_eq!(read.metadata.len(), 3);
    assert_eq!(read.metadata["format"], "pt");

    let encoded = read.encode().unwrap();
    assert_eq!(decode_safetensors(&encoded).unwrap(), read);
    assert_eq!(encoded, read.clone().encode().unwrap());
    // The format's own library accepts our files.
    let theirs = ::safetensors::SafeTensors::deserialize(&encoded).unwrap();
    assert_eq!(theirs.len(), 3);
    let z = theirs.tensor("z").unwrap();
    assert_eq!((z.shape(), z.data()), (&[2, 2][..], &values[..16]));
    assert_eq!(encoded.len() % 4, 0, "values are aligned");
}

#[test]
fn safetensors_malformed() {
    let entry = |rest: &str| safetensors_file(&format!(r#"{{"w":{{{rest}}}}}"#), &le(&[1.0, 2.0]));
    for (bytes, part) in [
        (vec![0; 7], "shorter than 8 bytes"),
        (vec![0xff; 64], "no length of a header"),
        (b"\x93NUMPY\x01\x00v\x00".to_vec(), "no length of a header"),
        (vec![9, 0, 0, 0, 0, 0, 0, 0, b'{'], "ends within its header"),
        (safetensors_file("not json", &[]), "header is not valid"),
        (safetensors_file("[]", &[]), "header is not valid"),
        (safetensors_file(&"[".repeat(1_000_000), &[]), "header is not valid"),
        (safetensors_file(&r#"{"a":"#.repeat(1_000_000), &[]), "header is not valid"),
        (
            entry(r#""dtype":"F64","shape":[1],"data_offsets":[0,8]"#),
            "tensor \"w\" has dtype F64; only f32 and i32",
        ),
        (entry(r#""dtype":"F99","shape":[1],"data_offsets":[0,8]"#), "F99"),
        (
            entry(r#""dtype":"F32","shape":[1],"data_offsets":[0,4]"#),
            "describes 4 bytes of values, but 8",
        ),
        (entry(r#""dtype":"F32","shape":[3],"data_offsets":[0,8]"#), "header is not valid"),
        (entry(r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#), "header is not valid"),
        (entry(r#""dtype":"F32","shape":[-2],"data_offsets":[0,8]"#), "header is not valid"),
        (
            entry(r#""dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8]"#),
            "header is not valid",
        ),
        (
            safetensors_file(
                r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                    "w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#,
                &[0; 8],
            ),
            "two entries are named \"w\"",
        ),
    ] {
        let error = message(decode_safetensors(&bytes));
        assert!(error.starts_with("a.safetensors: "), "{error}");
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// Offsets whose sum with the header's length exceeds 64 bits.
#[test]
fn safetensors_lengths_do_not_overflow() {
    let sizes: [u64; 8] = [(1 << 61) - 1; 8];
    let mut start = 0;
    let mut entries = Vec::new();
    for (index, size) in sizes.into_iter().enumerate() {
        let end = start + size;
        entries.push(format!(
            r#""t{index}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{start},{end}]}}"#
        ));
        start = end;
    }
    assert!(start > u64::MAX - 10);
    let bytes = safetensors_file(&format!("{{{}}}", entries.join(",")), &[]);
    assert!(message(decode_safetensors(&bytes)).contains("but 0 follow"));
}

#[test]
fn files_survive_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let float = || tensor(NPY_TENSOR, &[2, 3], Data::F32(SIX.into()));
    for (name, tensors) in [
        ("a.npy", vec![float()]),
        ("b.safetensors", vec![float(), tensor("b", &[2], Data::I32(vec![-1, i32::MAX]))]),
    ] {
        let path = directory.path().join(name);
        let written = file(path.to_str().unwrap(), tensors);
        written.write(&path).unwrap();
        // Overwrite the first file.
        written.write(&path).unwrap();
        assert_eq!(TensorFile::read(&path).unwrap(), written);
    }
    let names = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 2, "no parts are left behind");
}

#[test]
fn failed_writes_leave_the_old_file_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.npy");
    let mut good = file(path.to_str().unwrap(), vec![]);
    good.tensors = vec![tensor(NPY_TENSOR, &[1], Data::F32(vec![1.0]))];
    good.write(&path).unwrap();
    let mut bad = good.clone();
    bad.tensors[0].shape = vec![2];
    assert!(message(bad.write(&path)).contains("of shape (2,) has 1 values"));
    assert_eq!(TensorFile::read(&path).unwrap(), good);

    // A directory cannot be replaced by a file.
    let taken = directory.path().join("taken.npy");
    fs::create_dir(&taken).unwrap();
    assert!(message(good.write(&taken)).starts_with("cannot write "));
    assert!(message(good.write(Path::new("/"))).contains("not the name of a file"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn unreadable_paths_are_named() {
    let read = |path: &str| message(TensorFile::read(Path::new(path)));
    assert!(read("missing/a.npy").starts_with("cannot read missing/a.npy: "));
    for path in ["a.npz", "a", "a.NPY", ".npy"] {
        assert!(read(path).contains("end in .npy or .safetensors"), "{path}");
    }
}

#[test]
fn unwritable_contents_are_refused() {
    let one = || tensor("a", &[1], Data::I32(vec![1]));
    let error = message(file("a.npy", vec![one(), one()]).encode());
    assert!(error.contains("holds one tensor, not 2"), "{error}");
    let error = message(file("a.safetensors", vec![one(), one()]).encode());
    assert!(error.contains("second tensor or entry named \"a\""), "{error}");
    let reserved = tensor("__metadata__", &[1], Data::I32(vec![1]));
    message(file("a.safetensors", vec![reserved]).encode());
}

#[test]
fn agreement() {
    let float = |shape: &[usize]| {
        let values = vec![0.0; shape.iter().product()];
        tensor("w", shape, Data::F32(values))
    };
    let check = |others: Vec<NamedTensor>| {
        let files = [
            file("one.npy", vec![float(&[2, 3])]),
            file("two.npy", vec![float(&[2, 3])]),
            file("three.npy", others),
        ];
        check_agreement(&files)
    };
    check(vec![float(&[2, 3])]).unwrap();
    check_agreement(&[]).unwrap();
    assert_eq!(
        message(check(vec![float(&[3, 2])])),
        "tensor \"w\" has shape (2, 3) in one.npy and (3, 2) in three.npy"
    );
    assert_eq!(
        message(check(vec![tensor("w", &[2, 3], Data::I32(vec![0; 6]))])),
        "tensor \"w\" has dtype f32 in one.npy and i32 in three.npy"
    );
    assert_eq!(message(check(vec![])), "three.npy has no tensor \"w\", which one.npy has");
    assert_eq!(
        message(check(vec![tensor("v", &[], Data::I32(vec![0])), float(&[2, 3])])),
        "one.npy has no tensor \"v\", which three.npy has"
    );
}

/// Neither the order in a file nor in memory matters.
#[test]
fn agreement_goes_by_name() {
    let a = || tensor("a", &[1], Data::F32(vec![1.0]));
    let b = || tensor("b", &[2], Data::I32(vec![1, 2]));
    let files = [file("1.safetensors", vec![a(), b()]), file("2.safetensors", vec![b(), a()])];
    check_agreement(&files).unwrap();
    let stored = files.map(|f| decode_safetensors(&f.encode().unwrap()).unwrap().tensors);
    assert_eq!(stored[0], stored[1]);
}

#[test]
fn values_that_cannot_be_summed() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = SIX.to_vec();
        values[5] = value;
        let bad = file("a.npy", vec![tensor("w", &[2, 3], Data::F32(values))]);
        assert_eq!(
            message(bad.check_values(4)),
            format!("a.npy: tensor \"w\": the value at [1, 2] is {value}, which cannot be summed")
        );
    }
    let integers = |value| file("a.npy", vec![tensor("w", &[2], Data::I32(vec![0, value]))]);
    // (2^31 − 1) / 3 = 715 827 882, remainder 1.
    integers(715_827_882).check_values(3).unwrap();
    integers(-715_827_882).check_values(3).unwrap();
    integers(i32::MAX).check_values(1).unwrap();
    assert_eq!(
        message(integers(715_827_883).check_values(3)),
        "a.npy: tensor \"w\": the value at [1] is 715827883; with 3 workers, integers must be \
         within ±715827882"
    );
    message(integers(-715_827_883).check_values(3));
    message(integers(i32::MIN).check_values(1));
    // Any finite float can be summed.
    let large = vec![f32::MAX, f32::MIN, 0.0];
    file("a.npy", vec![tensor("w", &[3], Data::F32(large))]).check_values(32).unwrap();
}

#[test]
fn positions_count_in_c_order() {
    let all = (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| vec![i, j, k])));
    assert!(all.eq((0..24).map(|index| position(index, &[2, 3, 4]))));
}

#[test]
fn position_of_a_single_number() {
    let scalar = file("a.npy", vec![tensor("w", &[], Data::F32(vec![f32::NAN]))]);
    assert!(message(scalar.check_values(1)).contains("the value at [] is NaN"));
}

fn any_tensor() -> impl Strategy<Value = NamedTensor> {
    (proptest::collection::vec(0usize..5, 0..5), any::<bool>(), any::<u32>()).prop_map(
        |(shape, float, seed)| {
            let words = (0..shape.iter().product::<usize>() as u32)
                .map(|i| seed.wrapping_mul(i | 1).rotate_left(i % 32));
            let data = match float {
                // Random bit patterns without NaN, which does not equal itself.
                true => Data::F32(
                    words.map(f32::from_bits).map(|v| if v.is_nan() { -0.0 } else { v }).collect(),
                ),
                false => Data::I32(words.map(u32::cast_signed).collect()),
            };
            tensor(NPY_TENSOR, &shape, data)
        },
    )
}

/// Any file that was read can be written and read again with the same content.
fn check_rereading(read: Result<TensorFile, TensorError>) -> Result<(), TestCaseError> {
    match read {
        Err(error) => prop_assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(file) => {
            let bytes = file.encode().unwrap();
            let again = TensorFile::decode(&file.path, file.format, &bytes).unwrap();
            // Bytes, not values: NaN does not equal itself.
            prop_assert_eq!(again.encode().unwrap(), bytes);
            let _ = file.check_values(3);
        }
    }
    Ok(())
}

fn mutate(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    for (at, kind, value) in changes {
        if bytes.is_empty() {
            break;
        }
        // Half of the changes affect the first 100 bytes, which contain the header.
        let range = if value % 2 == 0 { bytes.len() } else { bytes.len().min(100) };
        let at = at.index(range);
        match kind % 5 {
            0 => bytes[at] = *value,
            1 => bytes[at] ^= 1 << (value % 8),
            2 => bytes.insert(at, *value),
            3 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn mutated_npy_never_panics(
        tensor in any_tensor(),
        changes in proptest::collection::vec(any::<(prop::sample::Index, u8, u8)>(), 1..8),
    ) {
        let bytes = file("a.npy", vec![tensor]).encode().unwrap();
        check_rereading(decode_npy(&mutate(bytes, &changes)))?;
    }

    #[test]
    fn mutated_safetensors_never_panics(
        tensors in proptest::collection::vec(any_tensor(), 0..4),
        changes in proptest::collection::vec(any::<(prop::sample::Index, u8, u8)>(), 1..8),
    ) {
        let mut file = file("a.safetensors", tensors);
        for (index, tensor) in file.tensors.iter_mut().enumerate() {
            tensor.name = format!("t{index}");
        }
        check_rereading(decode_safetensors(&mutate(file.encode().unwrap(), &changes)))?;
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check_rereading(decode_npy(&bytes))?;
        check_rereading(decode_safetensors(&bytes))?;
        check_rereading(decode_safetensors(&safetensors_file("{}", &bytes)))?;
    }

    /// Headers of typical parts in any order.
    #[test]
    fn shuffled_npy_headers_never_panic(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "(", ")", "[", "]", ",", ":", "'", "\"", " ", "descr", "'descr'", "'shape'",
            "'fortran_order'", "True", "False", "'<f4'", "'>i4'", "(2, 3)", "()", "0", "18446744073709551615",
            "L", "é", "\n",
        ]), 0..24),
    ) {
        let header = pieces.concat();
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(le(&SIX));
        check_rereading(decode_npy(&bytes))?;
    }
}
