//! Setting and getting the pipeline configuration.

use tributary_p4runtime::p4::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigRequest, get_forwarding_pipeline_config_request::ResponseType,
    set_forwarding_pipeline_config_request::Action,
};

use crate::config::SwitchConfig;
use crate::entities::Refusal;
use crate::forwarding::Forwarding;
use crate::switch::Switch;

/// The effect of a request to set the pipeline.
#[derive(Debug)]
pub(super) enum Step {
    /// No change; the configuration is valid.
    Nothing,
    Save(Box<Forwarding>),
    Commit(Box<Forwarding>),
    CommitSaved,
    Reconcile(Box<Forwarding>),
}

/// Compiles the program if necessary. Takes milliseconds.
pub(super) fn prepare(
    request: SetForwardingPipelineConfigRequest,
    switch: &SwitchConfig,
) -> Result<Step, Refusal> {
    let action = request.action();
    let compile = |config: Option<ForwardingPipelineConfig>| {
        let config = config.ok_or_else(|| Refusal::invalid("the request has no configuration"))?;
        let mut forwarding = Forwarding::compile(config)?;
        switch.check_ports(forwarding.architecture())?;
        forwarding.fill_cores(switch.cores.into())?;
        Ok(Box::new(forwarding))
    };
    match action {
        Action::Unspecified => Err(Refusal::invalid("the request has no action")),
        Action::Verify => compile(request.config).map(|_| Step::Nothing),
        Action::VerifyAndSave => compile(request.config).map(Step::Save),
        Action::VerifyAndCommit => compile(request.config).map(Step::Commit),
        Action::Commit if request.config.is_some() => {
            Err(Refusal::invalid("COMMIT takes no configuration: it starts the saved one"))
        }
        Action::Commit => Ok(Step::CommitSaved),
        Action::ReconcileAndCommit => compile(request.config).map(Step::Reconcile),
    }
}

/// Applies a step.
pub(super) fn apply(switch: &mut Switch, step: Step) -> Result<(), Refusal> {
    match step {
        Step::Nothing => {}
        Step::Save(forwarding) => switch.save(*forwarding),
        Step::Commit(forwarding) => switch.commit(*forwarding),
        Step::Reconcile(forwarding) => switch.reconcile(*forwarding)?,
        Step::CommitSaved => {
            if !switch.commit_saved() {
                return Err(Refusal::not_found("no configuration was saved"));
            }
        }
    }
    Ok(())
}

/// The requested part of the configuration.
pub(super) fn get(
    switch: &Switch,
    request: &GetForwardingPipelineConfigRequest,
) -> Result<Option<ForwardingPipelineConfig>, Refusal> {
    let Ok(response_type) = ResponseType::try_from(request.response_type) else {
        return Err(Refusal::invalid("unknown response type"));
    };
    Ok(switch.pipeline_config().map(|config| {
        let (p4info, device_config) = match response_type {
            ResponseType::All => (true, true),
            ResponseType::CookieOnly => (false, false),
            ResponseType::P4infoAndCookie => (true, false),
            ResponseType::DeviceConfigAndCookie => (false, true),
        };
        ForwardingPipelineConfig {
            p4info: config.p4info.clone().filter(|_| p4info),
            p4_device_config: match device_config {
                true => config.p4_device_config.clone(),
                false => Vec::new(),
            },
            cookie: config.cookie,
        }
    }))
}
