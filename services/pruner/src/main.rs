//! The pruner: deletes finished Agents beyond their Station's history limits.

fn main() -> anyhow::Result<()> {
    signalbox_pruner::main()
}
