//! Paths of a recipe below the workspace: they are data, and nothing outside is touched.

use std::path::{Component, Path, PathBuf};

/// `wanted` (absolute, or below `workspace`), resolved as written, without a look at the disk. None unless it is
/// strictly below an absolute workspace other than `/`.
pub fn below(workspace: &Path, wanted: &Path) -> Option<PathBuf> {
    let workspace = normalised(workspace)?;
    let place = normalised(&workspace.join(wanted))?;
    let below = workspace.parent().is_some() && place != workspace && place.starts_with(&workspace);
    below.then_some(place)
}

/// `path` without `.` and `..`. None for one that is relative or holds a NUL.
fn normalised(path: &Path) -> Option<PathBuf> {
    let holds_nul = path.as_os_str().as_encoded_bytes().contains(&0);
    (path.is_absolute() && !holds_nul).then(|| {
        path.components().fold(PathBuf::new(), |mut normal, component| {
            match component {
                Component::ParentDir => drop(normal.pop()),
                Component::CurDir => {}
                other => normal.push(other),
            }
            normal
        })
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::relative("/w", "a/b", Some("/w/a/b"))]
    #[case::absolute("/w", "/w/a", Some("/w/a"))]
    #[case::there_and_back("/w", "a/../b/./c", Some("/w/b/c"))]
    #[case::workspace_with_dots("/x/../w/", "a", Some("/w/a"))]
    #[case::case_78_parent("/w", "../x", None)]
    #[case::elsewhere("/w", "/etc/passwd", None)]
    #[case::like_the_workspace("/w", "/w2/a", None)]
    #[case::the_workspace_itself("/w", "a/..", None)]
    #[case::empty("/w", "", None)]
    #[case::far_up("/w", "../../../../etc", None)]
    #[case::nul("/w", "a\0b", None)]
    #[case::relative_workspace("w", "a", None)]
    #[case::everything_is_the_workspace("/", "a", None)]
    fn a_path_stays_strictly_below_the_workspace(
        #[case] workspace: &str,
        #[case] wanted: &str,
        #[case] place: Option<&str>,
    ) {
        assert_eq!(below(Path::new(workspace), Path::new(wanted)), place.map(PathBuf::from));
    }
}
