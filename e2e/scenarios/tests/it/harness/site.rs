use std::sync::OnceLock;

use tokio::sync::Mutex;

use super::{
    audit,
    kubectl::{kubectl, kubectl_with},
    manifests,
};

/// Stations and recipes that scenarios share.
const SHARED: &str = include_str!("../../fixtures/shared.yaml");
/// The services, in the order in which a person would look at them.
const DEPLOYMENTS: [&str; 4] = ["nats", "signalbox-watcher", "signalbox-job-launcher", "signalbox-pruner"];

/// One Signalbox in a namespace of its own.
pub struct Site {
    pub namespace: &'static str,
    overlay: &'static str,
    deployed: OnceLock<Result<(), String>>,
    /// Who may break parts of it.
    pub turn: Mutex<()>,
}

/// Where nothing is broken, and scenarios run side by side.
pub static CALM: Site = Site::new("signalbox-e2e", concat!(env!("CARGO_MANIFEST_DIR"), "/../../k8s/overlays/e2e"));
/// Where one scenario at a time breaks what it likes.
pub static STORMY: Site = Site::new("signalbox-e2e-faults", concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/faults"));

impl Site {
    const fn new(namespace: &'static str, overlay: &'static str) -> Self {
        Self { namespace, overlay, deployed: OnceLock::new(), turn: Mutex::const_new(()) }
    }

    /// Deploys it, once a process. One that did not come up is not tried again by the next scenario.
    pub async fn deployed(&'static self) {
        assert!(
            std::env::var_os("KUBECONFIG").is_some(),
            "KUBECONFIG is not set: these scenarios need a cluster, run `make e2e`"
        );
        let deployed = tokio::task::spawn_blocking(|| self.deployed.get_or_init(|| self.deploy()).clone());
        if let Err(why) = deployed.await.expect("the deployment ends") {
            panic!("{} is not there: {why}", self.namespace);
        }
    }

    /// Puts back whatever a scenario has taken away or changed.
    pub async fn repaired(&'static self) {
        let repaired = tokio::task::spawn_blocking(|| self.apply().and_then(|()| self.wait_until_ready()));
        repaired.await.expect("the repair ends").unwrap_or_else(|why| panic!("{}: {why}", self.namespace));
    }

    fn deploy(&self) -> Result<(), String> {
        static KINDS: OnceLock<Result<(), String>> = OnceLock::new();
        KINDS.get_or_init(apply_kinds).clone()?;
        self.clear()?;
        self.apply()?;
        let secret = secret_manifest();
        self.kubectl_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &secret)?;
        self.kubectl_with(&["apply", "-f", "-"], &manifests::list(SHARED))?;
        self.wait_until_ready()?;
        audit::start();
        Ok(())
    }

    /// Takes away what an earlier process left, running pods above all.
    fn clear(&self) -> Result<(), String> {
        self.kubectl(&["delete", "agents,stations,agentdefinitions", "--all", "--wait=false"])?;
        self.kubectl(&["delete", "pods,services", "-l", "signalbox.dev/e2e", "--wait=false"])?;
        Ok(())
    }

    fn apply(&self) -> Result<(), String> {
        kubectl(&["apply", "-k", self.overlay])?;
        // Images carry one tag whatever is in them: a new build rolls the services by its content.
        let Ok(build) = std::env::var("SIGNALBOX_BUILD") else { return Ok(()) };
        let patch = format!(
            r#"{{"spec":{{"template":{{"metadata":{{"annotations":{{"signalbox.dev/build":"{build}"}}}}}}}}}}"#
        );
        DEPLOYMENTS.iter().try_for_each(|name| self.kubectl(&["patch", "deployment", name, "-p", &patch]).map(drop))
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        DEPLOYMENTS.iter().try_for_each(|name| {
            let status = self.kubectl(&["rollout", "status", "--timeout=180s", "deployment", name]);
            status.map(drop).map_err(|why| format!("{why}\n{}", self.describe()))
        })
    }

    /// What a person would look at first, for the message of a failure.
    pub fn describe(&self) -> String {
        let questions: [&[&str]; 5] = [
            &["get", "agents,jobs,pods,deployments,leases", "-o", "wide"],
            &["get", "events", "--sort-by=.lastTimestamp"],
            &["describe", "pods"],
            &["get", "agents,stations", "-o", "yaml"],
            &[
                "logs",
                "-l",
                "app.kubernetes.io/part-of=signalbox",
                "--all-containers",
                "--prefix",
                "--tail=300",
                "--max-log-requests=20",
            ],
        ];
        let answer = |args: &&[&str]| {
            let answer = self.kubectl(args).unwrap_or_else(|why| why);
            format!("### kubectl -n {} {}\n{answer}\n", self.namespace, args.join(" "))
        };
        questions.iter().map(answer).collect()
    }

    pub fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        self.kubectl_with(args, "")
    }

    pub fn kubectl_with(&self, args: &[&str], stdin: &str) -> Result<String, String> {
        kubectl_with(&[&["-n", self.namespace], args].concat(), stdin)
    }
}

fn apply_kinds() -> Result<(), String> {
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../k8s/crds");
    let applied = kubectl(&["apply", "-k", crds, "-o", "name"])?;
    let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
    kubectl(&wait.into_iter().chain(applied.lines()).collect::<Vec<_>>()).map(drop)
}

/// A credential that nobody else has, made anew for each process: whatever shows it has leaked it.
pub fn secret_token() -> &'static str {
    static TOKEN: OnceLock<String> = OnceLock::new();
    TOKEN.get_or_init(|| format!("e2e-{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>()))
}

fn secret_manifest() -> String {
    let token = secret_token();
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: agent-secrets\nstringData:\n  \
         SINK_HEADERS: \"Authorization: Bearer {token}\"\n  GIT_TOKEN: {token}\n"
    )
}
