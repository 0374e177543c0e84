//! The job-launcher: turns Agents into Jobs, and what becomes of them into results.

fn main() -> anyhow::Result<()> {
    signalbox_job_launcher::main()
}
