use std::{
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

use gix::{
    ObjectId, Repository,
    bstr::{BStr, BString, ByteSlice},
    clone::{PrepareCheckout, PrepareFetch},
    config::{File, Source},
    create, open,
    progress::Discard,
    protocol::transport::client::blocking_io::http,
    refs::{
        FullName, Target,
        transaction::{LogChange, PreviousValue, RefEdit, RefLog},
    },
};

use super::{
    Error,
    token::{self, Access},
};

/// Clones `url` with its whole history into `destination`, which is not there, and checks out `reference`, or the
/// remote's own branch where that is empty.
pub(crate) fn clone(url: &str, destination: &Path, reference: &str, access: Option<Access>) -> Result<(), Error> {
    // Deadline and signals end the process, so nothing here is ever interrupted from within.
    let never = AtomicBool::new(false);
    let mut checkout = prepared(url, destination, access.clone())
        .and_then(|mut fetch| fetch.fetch_then_checkout(Discard, &never))
        .map(|(checkout, _)| checkout)
        .map_err(|error| Error::Clone(text(&error)))?;
    if !reference.is_empty() {
        let target = find(checkout.repo(), reference).ok_or_else(|| Error::UnknownRef(reference.to_owned()))?;
        turn_to(checkout.repo(), reference, target).map_err(|error| Error::Checkout(text(&error)))?;
    }
    let repo = write_files(&mut checkout, &never)?;
    access.map_or(Ok(()), |access| access.persist(repo.git_dir())).map_err(|error| Error::Persist(text(&error)))
}

/// A clone that reads no configuration but its own, runs no program, and asks nobody for a password.
fn prepared(url: &str, destination: &Path, access: Option<Access>) -> Result<PrepareFetch, gix::Error> {
    let url = gix::url::parse(url.as_bytes().as_bstr())?;
    let kind = create::Kind::WithWorktree;
    let fetch = PrepareFetch::new(url, destination, kind, create::Options::default(), open::Options::isolated())?;
    Ok(fetch.configure_connection(move |connection| {
        let access = access.clone();
        connection.set_credentials(move |question| token::answer(access.as_ref(), question));
        connection.set_transport_options(Box::new(transport()));
        Ok(())
    }))
}

/// The certificates of any image, and no time limit but the run's: a server may count objects for minutes.
fn transport() -> http::Options {
    let configure_client: Box<http::reqwest::ConfigureClientFn> = Box::new(|builder| {
        let tls = signalbox_output::tls::client_config().map_err(gix::Error::from_error)?;
        Ok(builder.tls_backend_preconfigured(tls).timeout(None))
    });
    let backend = http::reqwest::Options { configure_client: Some(configure_client), configure_request: None };
    http::Options { backend: Some(Arc::new(Mutex::new(backend))), ..http::Options::default() }
}

/// What a name stands for.
enum Found {
    /// A branch of the remote.
    Branch(ObjectId),
    /// A tag, a commit, or whatever else names a commit.
    Commit(ObjectId),
}

/// A whole commit id comes first, so that no branch can take its name; then branches, tags, and all that git knows as
/// a revision. The name is data: nothing takes it for an option.
fn find(repo: &Repository, reference: &str) -> Option<Found> {
    let commit = |id: ObjectId| Some(repo.find_object(id).ok()?.peel_to_commit().ok()?.id);
    if let Some(id) = ObjectId::from_hex(reference.as_bytes()).ok().and_then(commit) {
        return Some(Found::Commit(id));
    }
    let named = |name: String| {
        let name = full_name(&name).ok()?;
        let id = repo.try_find_reference(name.as_ref()).ok()??.into_fully_peeled_id().ok()?;
        commit(id.detach())
    };
    let branch = || named(format!("refs/remotes/origin/{reference}")).map(Found::Branch);
    let tag = || named(format!("refs/tags/{reference}")).map(Found::Commit);
    let revision = || commit(repo.rev_parse_single(BStr::new(reference)).ok()?.detach()).map(Found::Commit);
    branch().or_else(tag).or_else(revision)
}

/// Points HEAD to what was found: a branch as a branch of our own that follows the remote's, all else detached.
fn turn_to(repo: &Repository, reference: &str, found: Found) -> Result<(), gix::Error> {
    let log = || LogChange {
        mode: RefLog::AndReference,
        force_create_reflog: false,
        message: format!("checkout: moving to {reference}").into(),
    };
    let edit = |name: FullName, target: Target| RefEdit::update_with_log(name, target, PreviousValue::Any, log());
    let head = full_name("HEAD")?;
    match found {
        Found::Commit(id) => repo.edit_reference(edit(head, Target::Object(id))).map(drop),
        Found::Branch(id) => {
            let branch = full_name(&format!("refs/heads/{reference}"))?;
            repo.edit_reference(edit(branch.clone(), Target::Object(id)))?;
            repo.edit_reference(edit(head, Target::Symbolic(branch.clone())))?;
            follow(repo.git_dir(), reference, branch.as_bstr())
        }
    }
}

fn full_name(name: &str) -> Result<FullName, gix::Error> {
    FullName::try_from(name).map_err(gix::Error::from_error)
}

/// Records which branch of the remote a branch follows, unless the clone has.
fn follow(git_dir: &Path, reference: &str, branch: &BStr) -> Result<(), gix::Error> {
    let path = git_dir.join("config");
    let mut config = File::from_path_no_includes(path.clone(), Source::Local)?;
    if config.section("branch", Some(reference.into())).is_ok() {
        return Ok(());
    }
    let mut section = config.new_section("branch", Some(BString::from(reference)))?;
    section.push("remote", "origin")?.push("merge", branch)?;
    std::fs::write(path, &*config.to_bstring()).map_err(gix::Error::from_error)
}

fn write_files(checkout: &mut PrepareCheckout, never: &AtomicBool) -> Result<Repository, Error> {
    let written = checkout.main_worktree(Discard, never).map_err(|error| Error::Checkout(text(&error)))?;
    let (repo, outcome) = written;
    if let Some(error) = outcome.errors.first() {
        return Err(Error::Checkout(format!("{} files, the first: {}", outcome.errors.len(), error.path)));
    }
    if let Some(collision) = outcome.collisions.first() {
        return Err(Error::Checkout(format!("two files want the same place: {}", collision.path)));
    }
    Ok(repo)
}

/// An error with its causes.
fn text(error: &gix::Error) -> String {
    let mut causes: Vec<String> = error.iter_errors().map(ToString::to_string).collect();
    causes.dedup();
    causes.join(": ")
}
