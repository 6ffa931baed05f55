//! What packages have beside the program: manual pages and completions, checked by the programs that read
//! them; the Debian package, if cargo-deb is installed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::command::{JobFile, root, succeed, text, tributary};
use crate::units::Installed;

/// Runs another program; `None`, with one line, if it is not installed.
fn other(program: &str, args: &[&str]) -> Option<Output> {
    match Command::new(program).args(args).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: {program} not found on the PATH ({error})");
            None
        }
    }
}

/// All files below a directory, relative to it.
fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut rest = vec![directory.to_owned()];
    while let Some(next) = rest.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rest.push(path);
            } else {
                found.insert(path.strip_prefix(directory).unwrap().to_owned());
            }
        }
    }
    found
}

/// The commands in the help text of a command.
fn commands(path: &[&str]) -> Vec<String> {
    let help = succeed(&[path, &["--help"]].concat());
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        name.split_whitespace().next()
    });
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Units of type `notify` are active once their process has said so, and are started again if it no longer says that it
/// works.
#[test]
fn a_daemon_tells_the_service_manager_that_it_serves_and_works() {
    let file = JobFile::new("[topology]\nkind = \"star\"\nworkers = 2\nps_hosts = 1\n[[job]]\n");
    let path = |name: &str| file.path(name).display().to_string();
    fs::write(path("site.toml"), "network = \"job.toml\"\n[[server]]\nhost = \"w1\"\ngpus = 1\n")
        .unwrap();
    let told = UnixDatagram::bind(path("notify.sock")).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let listen = format!("unix:{}", path("manager.sock"));
    let (site, database) = (path("site.toml"), path("manager.redb"));
    let args = ["place", "serve", &site, "--listen", &listen, "--database", &database];
    let mut manager = tributary(&args);
    manager.env("NOTIFY_SOCKET", path("notify.sock")).stdout(Stdio::null());
    manager.env("WATCHDOG_USEC", "300000");
    let mut manager = manager.spawn().unwrap();
    let next = || {
        let mut text = [0; 64];
        let length = told.recv(&mut text);
        length.map(|length| String::from_utf8_lossy(&text[..length]).trim_end().to_owned())
    };
    let said = [next(), next(), next()].map(|said| said.unwrap_or_default());
    let there = fs::exists(path("manager.sock"));
    manager.kill().unwrap();
    manager.wait().unwrap();
    assert_eq!(said, ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    assert!(there.unwrap(), "it listens when it says so");
}

#[test]
fn each_command_has_a_manual_page_that_man_accepts() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    succeed(&["man", pages.to_str().unwrap()]);
    let mut expected = BTreeSet::from([PathBuf::from("tributary.1")]);
    let mut rest: Vec<Vec<String>> = vec![vec![]];
    while let Some(path) = rest.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        // `p4` and `lab` are other programs, with pages of their own.
        let own = |name: &String| !path.is_empty() || !["p4", "lab"].contains(&name.as_str());
        for name in commands(&words).into_iter().filter(own) {
            let path = [path.clone(), vec![name]].concat();
            expected.insert(format!("tributary-{}.1", path.join("-")).into());
            rest.push(path);
        }
    }
    assert!(expected.len() > 30, "{expected:?}");
    assert_eq!(files(&pages), expected);
    let program = fs::read_to_string(pages.join("tributary.1")).unwrap();
    for said in ["tributary\\-run(1)", "TRIBUTARY_LOG", "EXIT STATUS", "/etc/tributary"] {
        assert!(program.contains(said), "{said}: {program}");
    }
    for page in expected {
        let page = pages.join(page);
        let name = page.to_str().unwrap();
        let args = [
            "--warnings",
            "--encoding=UTF-8",
            "--local-file",
            "--troff-device=utf8",
            "--ditroff",
            name,
        ];
        let Some(output) = other("man", &args) else { return };
        let said = text(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
    }
}

#[test]
fn shells_complete_commands_and_options() {
    let directory = tempfile::tempdir().unwrap();
    let script = |shell: &str, name: &str| {
        let path = directory.path().join(name);
        fs::write(&path, succeed(&["completions", shell])).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let bash = script("bash", "tributary");
    let ask = format!(
        "source {bash}; COMP_WORDS=(tributary controller --on-d); COMP_CWORD=2; \
         _tributary tributary --on-d controller; echo ${{COMPREPLY[@]}}"
    );
    if let Some(output) = other("bash", &["--norc", "-c", &ask]) {
        assert_eq!(text(&output.stdout), "--on-demand\n", "{}", text(&output.stderr));
    }
    let fish = script("fish", "tributary.fish");
    let ask = format!("source {fish}; complete --do-complete 'tributary remi'");
    if let Some(output) = other("fish", &["--no-config", "-c", &ask]) {
        assert!(text(&output.stdout).starts_with("reminder\t"), "{output:?}");
    }
    let zsh = script("zsh", "_tributary");
    // Completion in zsh needs a terminal; without one, its parser and the loading remain.
    let ask = format!(
        "fpath=({} $fpath); autoload -U compinit; compinit -u -D; \
         autoload +X _tributary && echo $_comps[tributary]",
        Path::new(&zsh).parent().unwrap().display()
    );
    if let Some(output) = other("zsh", &["--no-rcs", "-c", &ask]) {
        assert_eq!(text(&output.stdout), "_tributary\n", "{}", text(&output.stderr));
    }
}

/// The version of the first entry of the changelog.
fn changelog() -> String {
    let text = fs::read_to_string(root().join("deploy/debian/changelog")).unwrap();
    let version = text.split(['(', ')']).nth(1).unwrap();
    version.to_owned()
}

#[test]
fn the_changelog_and_the_image_have_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(changelog(), format!("{version}-1"));
    let recipe = fs::read_to_string(root().join("deploy/oci/Containerfile")).unwrap();
    assert!(recipe.contains(&format!("image.version=\"{version}\"")), "{recipe}");
}

#[test]
fn the_debian_package_has_the_files_of_the_installation() {
    if !Command::new("cargo").args(["deb", "--version"]).output().is_ok_and(|o| o.status.success())
    {
        println!("skipped: cargo-deb is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let package = directory.path().join("tributary.deb");
    let package = package.to_str().unwrap();
    // In the place of a release build.
    let target = directory.path().join("target");
    fs::create_dir_all(target.join("release")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_tributary"), target.join("release/tributary")).unwrap();
    let output = Command::new(root().join("scripts/package.sh"))
        .args(["--no-build", "--fast", "--output", package])
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let unpacked = directory.path().join("unpacked");
    let unpacked_name = unpacked.to_str().unwrap();
    let Some(output) = other("dpkg-deb", &["--raw-extract", package, unpacked_name]) else {
        return;
    };
    assert!(output.status.success(), "{}", text(&output.stderr));

    let installed = Installed::new("/usr");
    // Policy wants these compressed.
    let plain = |path: PathBuf| match path.to_str().unwrap().strip_suffix(".gz") {
        Some(name) => PathBuf::from(name),
        None => path,
    };
    let mut packed: BTreeSet<PathBuf> =
        files(&unpacked.join("usr")).into_iter().map(plain).collect();
    for own in ["copyright", "changelog.Debian"] {
        assert!(packed.remove(&Path::new("share/doc/tributary").join(own)), "{own}: {packed:?}");
    }
    assert_eq!(packed, files(&installed.path("")));
    let scripts = files(&unpacked.join("DEBIAN"));
    for script in ["postinst", "prerm", "postrm"] {
        assert!(scripts.contains(Path::new(script)), "{scripts:?}");
    }
    let control = fs::read_to_string(unpacked.join("DEBIAN/control")).unwrap();
    assert!(control.contains("libc6 (>= ") && control.contains("systemd"), "{control}");
}
