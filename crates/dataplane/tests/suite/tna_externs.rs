//! TNA: externs with state of their own, of arrays and of table entries, and what the driver of a
//! chip sets.

use tributary_dataplane::{
    ActionCall, EgressInput, FilterConfig, KeyMatch, MeterConfig, Owner, Pipeline, StateError,
    TableEntry, Value, Verdict,
};
use tributary_p4::ir::{ExternId, TableId};

use super::tna::{Parts, frame, ingress, through, words};

/// A table's number, by the end of its name.
fn table(pipeline: &Pipeline, name: &str) -> TableId {
    let found = pipeline.program().tables.iter().position(|t| t.name.ends_with(name));
    TableId(found.expect("a table of that name") as u32)
}

#[test]
fn each_entry_has_its_own_register_which_actions_change() {
    let mut pipeline = Parts {
        locals: "
            DirectRegister<pair_t>({ 7, 9 }) cells;
            DirectRegisterAction<pair_t, bit<32>>(cells) add = {
                void apply(inout pair_t cell, out bit<32> result) {
                    if (cell.lo > 100) {
                        cell.hi = cell.hi + 1;
                    } else {
                        cell.lo = cell.lo + hdr.h.c;
                    }
                    result = cell.lo;
                }
            };
            RegisterParam<bit<32>>(5) step;
            Register<bit<32>, bit<8>>(2) sums;
            RegisterAction<bit<32>, bit<8>, bit<32>>(sums) more = {
                void apply(inout bit<32> cell, out bit<32> result) {
                    cell = cell + step.read();
                    result = cell;
                }
            };
            action count() { hdr.h.d = add.execute(); }
            table entries_of {
                key = { hdr.h.a: exact; }
                actions = { count; }
                const default_action = count();
                registers = cells;
                size = 4;
            }
        ",
        ingress: "
            tm.ucast_egress_port = 1;
            if (hdr.h.op == 0) { entries_of.apply(); } else { hdr.h.d = more.execute(1); }
        ",
        ..Parts::default()
    }
    .load();
    let at = table(&pipeline, "entries_of");
    let key = vec![KeyMatch::Exact(Value::from(3_u64))];
    let call = ActionCall { action: 0, args: Vec::new() };
    pipeline.insert(at, TableEntry::new(key.clone(), 0, call)).unwrap();
    let mut send = |op, a, c| words(&through(&mut pipeline, &frame(op, a, 0, c, 0)))[1];
    assert_eq!([send(0, 3, 10), send(0, 3, 90), send(0, 3, 1)], [17, 107, 107]);
    // The default entry has another cell.
    assert_eq!([send(0, 4, 1), send(0, 5, 2)], [8, 10]);
    assert_eq!([send(1, 0, 0), send(1, 0, 0)], [5, 10]);
    let cell = |of: Owner<'_>| pipeline.direct_register_read(at, of).unwrap();
    let pair = |lo: u64, hi: u64| vec![Value::from(lo), Value::from(hi)];
    assert_eq!(cell(Owner::Entry(&key, 0)), pair(107, 10));
    assert_eq!(cell(Owner::Default), pair(10, 9));
}

#[test]
fn meters_and_filters_keep_state_for_a_cell_or_an_entry() {
    let mut pipeline = Parts {
        locals: "
            Meter<bit<8>>(2, MeterType_t.BYTES, 30, 20, 10) meter;
            Lpf<bit<32>, bit<8>>(2) average;
            Wred<bit<32>, bit<8>>(2, 8, 9) early;
            DirectLpf<bit<32>>() rate;
            action sum() { hdr.h.d = rate.execute(hdr.h.c); }
            table rates {
                key = { hdr.h.a: exact; }
                actions = { sum; }
                const default_action = sum();
                filters = rate;
            }
        ",
        ingress: "
            tm.ucast_egress_port = 1;
            if (hdr.h.op == 0) { hdr.h.d = (bit<32>)meter.execute(hdr.h.a, MeterColor_t.YELLOW, 32w15); }
            else if (hdr.h.op == 1) { hdr.h.d = average.execute(hdr.h.c, hdr.h.a); }
            else if (hdr.h.op == 2) { hdr.h.d = (bit<32>)early.execute(hdr.h.c, hdr.h.a); }
            else { rates.apply(); }
        ",
        ..Parts::default()
    }
    .load();
    let of = |pipeline: &Pipeline, name: &str| {
        let found = pipeline.program().externs.iter().position(|e| e.name.ends_with(name));
        ExternId(found.expect("an instance of that name") as u32)
    };
    let (meter, average) = (of(&pipeline, "meter"), of(&pipeline, "average"));
    let early = of(&pipeline, "early");
    let rates = MeterConfig { cir: 0, cburst: 100, pir: 0, pburst: 3 };
    assert!(pipeline.set_meter_config(meter, 1, Some(rates)).is_ok());
    let config = FilterConfig::Average { gain_ns: 0, decay_ns: 1 << 40, scale_down: 1 };
    pipeline.set_filter_config(average, 1, Some(config)).unwrap();
    assert_eq!(pipeline.filter_config(average, 1), Ok(Some(config)));
    assert!(pipeline.set_filter_config(average, 2, None).is_err());
    let bounds =
        |min, max| FilterConfig::Drop { time_constant_ns: 0, min, max, max_probability: 1.0 };
    pipeline.set_filter_config(early, 0, Some(bounds(10, 20))).unwrap();
    assert_eq!(pipeline.set_filter_config(early, 0, Some(bounds(20, 10))), Err(StateError::Filter));
    let sums = FilterConfig::Rate { decay_ns: 1 << 40, scale_down: 0 };
    let at = table(&pipeline, "rates");
    pipeline.set_direct_filter_config(at, Owner::Default, Some(sums)).unwrap();

    let mut send = |op, a, c| words(&through(&mut pipeline, &frame(op, a, 0, c, 0)))[1];
    // Sixteen bytes less fifteen are one; three tokens turn a yellow packet red, which is 30 here.
    assert_eq!([0; 5].map(|_| send(0, 1, 0)), [20, 20, 20, 30, 30]);
    assert_eq!([send(0, 0, 0), send(0, 2, 0)], [20, 20]);
    // The value rises at once and does not fall; cell 0 has no configuration.
    assert_eq!([send(1, 1, 100), send(1, 1, 10), send(1, 1, 200)], [50, 50, 100]);
    assert_eq!([send(1, 0, 7), send(1, 9, 7)], [7, 7]);
    assert_eq!([send(2, 0, 10), send(2, 0, 20), send(2, 1, 20)], [9, 8, 9]);
    assert_eq!([send(3, 0, 5), send(3, 1, 6)], [5, 11]);
}

#[test]
fn a_parser_counter_counts_in_eight_bits() {
    let mut pipeline = Parts {
        parser: "
            ParserCounter() count;
            state more {
                transition select(count.is_zero(), count.is_negative()) {
                    (true, _): headers;
                    (_, true): headers;
                    default: skip;
                }
            }
            state skip { packet.advance(8); count.decrement(1); transition more; }
        ",
        start: "
            packet.advance(PORT_METADATA_SIZE);
            count.set(packet.lookahead<bit<8>>(), 200, 4, 3, 0);
            transition more;
        ",
        ingress: "hdr.h.a = (bit<8>)prsr.parser_err; tm.ucast_egress_port = 1;",
        ..Parts::default()
    }
    .load();
    let mut send = |first: u8| {
        let mut long = vec![first];
        long.extend(1..40);
        through(&mut pipeline, &long)
    };
    // The high half of the first byte is the number of bytes to skip.
    assert_eq!(send(0x00)[..3], [0x00, 0, 2]);
    assert_eq!(send(0x3f)[..3], [3, 0, 5]);
    assert_eq!(send(0xc0)[..3], [12, 0, 14]);
    // More than the limit.
    assert_eq!(send(0xd0)[..3], [0xd0, 1, 2]);
}

#[test]
fn dropped_packets_are_mirrored_unless_the_copy_is_dropped_too() {
    let mut pipeline = Parts {
        ingress: "
            tm.ucast_egress_port = 1;
            dprsr.mirror_type = 1;
            dprsr.drop_ctl = hdr.h.op[2:0];
        ",
        deparser_locals: "Mirror(1) first;",
        deparser: "first.emit<pair_t>(3, { hdr.h.c, 1 });",
        egress: "dprsr.mirror_type = 2; dprsr.drop_ctl = hdr.h.a[2:0]; hdr.h.b = 9;",
        egress_deparser: "if (dprsr.mirror_type == 2) { mirror.emit(4); }",
        ..Parts::default()
    }
    .load();
    for control in 0..8_u8 {
        let (outcome, packet) = ingress(&mut pipeline, &frame(control, 0, 0, 5, 0));
        assert_eq!(outcome.verdict == Verdict::Drop, control & 1 != 0, "{control}");
        let wanted = (control & 4 == 0).then_some((3, &[0, 0, 0, 5, 0, 0, 0, 1][..]));
        assert_eq!(packet.mirror(), wanted, "{control}");
        let (_, mut packet) = ingress(&mut pipeline, &frame(0, control, 0, 5, 0));
        let mut out = Vec::new();
        let egress = pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
        assert_eq!(egress.drop, control & 1 != 0);
        assert_eq!(packet.mirror(), (control & 4 == 0).then_some((4, &[][..])), "{control}");
        assert_eq!(out[2..4], [0, 9], "what would have left");
    }
}

#[test]
fn ports_have_metadata_of_their_own() {
    let mut pipeline = Parts {
        start: "
            pair_t port = port_metadata_unpack<pair_t>(packet);
            meta.x = port.lo + port.hi;
            transition headers;
        ",
        ingress: "hdr.h.d = meta.x; tm.ucast_egress_port = 1;",
        ..Parts::default()
    }
    .load();
    let sent = frame(0, 0, 0, 0, 0);
    assert_eq!(words(&through(&mut pipeline, &sent))[1], 0);
    pipeline.set_port_metadata(5, [0, 0, 0, 9, 0, 0, 1, 0]);
    pipeline.set_port_metadata(4, [0xff; 8]);
    assert_eq!(words(&through(&mut pipeline, &sent))[1], 0x109);
    pipeline.set_port_metadata(5, [0; 8]);
    assert_eq!(words(&through(&mut pipeline, &sent))[1], 0);
}
