//! The log names what an event belongs to.

use crate::command::{failure, text, tributary};

#[test]
fn events_name_their_job_switch_stream_and_tensor() {
    let args = ["run", "examples/esa-two-jobs.toml"];
    let output = tributary(&args).env("TRIBUTARY_LOG", "debug").output().unwrap();
    let log = text(&output.stderr);
    assert!(output.status.success(), "{log}");
    let spans = [
        r#"run{file="esa-two-jobs" fabric="memory"}:job{name="slow"}:admission{run="#,
        r#":switch{name="s1"}: tributary_controller::jobs: close time.busy="#,
        r#" switch{name="s1"}:stream{connection=1}: "#,
        r#" stream{client=1}: "#,
        r#" worker{job="slow" index=0}:tensor{id="#,
        r#":removal{job=1}:sweep{switch="s1" run="#,
        r#" servers{jobs=["#,
    ];
    for span in spans {
        assert!(log.contains(span), "{span}: {log}");
    }
    // Other crates log warnings only.
    assert!(!log.contains(" h2::") && !log.contains("cranelift"), "{log}");
    let output = tributary(&args).env("TRIBUTARY_LOG", "a=b=c").output().unwrap();
    let line = failure(&args, &output);
    assert!(line.contains("TRIBUTARY_LOG=a=b=c: write a level"), "{line}");
    // Without the variable only warnings are shown, and there are none.
    let quiet = tributary(&args).env_remove("TRIBUTARY_LOG").output().unwrap();
    assert!(!text(&quiet.stderr).contains(" close "), "{}", text(&quiet.stderr));
}
