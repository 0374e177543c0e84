use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Container, EnvVar, PodSpec},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use signalbox_agents::{
    Run,
    job::{BuildError, JobOptions, build},
};
use signalbox_types::{Agent, AgentDefinition, Station};

pub fn yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap()
}

/// The fixtures, to be changed by a test.
pub struct Objects {
    pub agent: Agent,
    pub station: Station,
    pub definition: AgentDefinition,
    pub options: JobOptions,
}

impl Objects {
    /// Every field in use.
    pub fn full() -> Self {
        Self {
            agent: yaml(include_str!("../fixtures/agent.yaml")),
            station: yaml(include_str!("../fixtures/station.yaml")),
            definition: yaml(include_str!("../fixtures/definition.yaml")),
            options: JobOptions { agent_image: "registry.example/signalbox-agent:1".to_owned(), traceparent: None },
        }
    }

    /// As little as a run can have; it greets with a command.
    pub fn bare() -> Self {
        let mut objects = Self::full();
        objects.agent.spec = yaml("stationRef: bug-fixer");
        objects.station.spec = yaml("{agentDefRef: a, template: {spec: {containers: [{name: agent, image: b}]}}}");
        objects.definition.spec = yaml("{model: exec, prompt: p, tool_config: {command: [echo]}}");
        objects
    }

    pub fn run(&self) -> Run<'_> {
        Run { agent: &self.agent, station: &self.station, definition: &self.definition }
    }

    pub fn pod_spec(&mut self) -> &mut Value {
        &mut self.station.spec.template["spec"]
    }

    pub fn recipe(mut self, spec: &str) -> Self {
        self.definition.spec = yaml(spec);
        self
    }

    pub fn build(&self) -> Result<Job, BuildError> {
        build(&self.run(), &self.options)
    }

    pub fn pod(&self) -> PodSpec {
        self.build().unwrap().spec.unwrap().template.spec.unwrap()
    }

    pub fn agent_container(&self) -> Container {
        self.pod().containers.into_iter().find(|container| container.name == "agent").unwrap()
    }

    pub fn init_container(&self) -> Container {
        self.pod().init_containers.unwrap().into_iter().next().unwrap()
    }

    /// The agent's argv: what follows the supervisor's `--`.
    pub fn argv(&self) -> Vec<String> {
        self.agent_container().command.unwrap().split_off(2)
    }

    pub fn agent_env(&self) -> Variables {
        Variables(self.agent_container().env.unwrap())
    }

    pub fn init_env(&self) -> Variables {
        Variables(self.init_container().env.unwrap())
    }
}

/// The variables of a container.
pub struct Variables(pub Vec<EnvVar>);

impl Variables {
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|variable| variable.name.as_str()).collect()
    }

    pub fn count(&self, name: &str) -> usize {
        self.names().into_iter().filter(|held| *held == name).count()
    }

    pub fn has(&self, name: &str) -> bool {
        self.count(name) > 0
    }

    pub fn value(&self, name: &str) -> &str {
        self.0.iter().find(|variable| variable.name == name).unwrap().value.as_deref().unwrap()
    }

    /// The key of `agent-secrets` that the variable comes from.
    pub fn secret(&self, name: &str) -> Option<&str> {
        let variable = self.0.iter().find(|variable| variable.name == name)?;
        let reference = variable.value_from.as_ref()?.secret_key_ref.as_ref()?;
        assert_eq!((reference.name.as_str(), reference.optional), ("agent-secrets", Some(false)));
        Some(&reference.key)
    }
}

/// What the kubelet makes of a command or a value when none of its references is known: `$$` is `$`, and `$(NAME)`
/// would be the variable `NAME`.
pub fn expanded(text: &str) -> String {
    let mut rest = text;
    let mut result = String::new();
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        match after.chars().next() {
            Some('$') => {
                result.push('$');
                rest = &after[1..];
            }
            Some('(') => {
                result.push_str("<EXPANDED>");
                rest = after.split_once(')').map_or("", |(_, left)| left);
            }
            _ => {
                result.push('$');
                rest = after;
            }
        }
    }
    result + rest
}
