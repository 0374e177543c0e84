//! Puts the parts of a listing together.

use signalbox_types::{ObjectId, bus::ListingPart};

use super::table::Listing;

/// Parts that have come of the newest listing, and the version of the last complete one.
#[derive(Default)]
pub struct Assembly {
    current: Option<Unfinished>,
    /// The version of the newest listing that was complete.
    done: u64,
}

struct Unfinished {
    epoch: String,
    version: u64,
    parts: Vec<Option<ListingPart>>,
}

/// No watcher makes more parts: at 512 KiB each that would be millions of objects. A forged number must not reserve
/// memory.
const MAX_PARTS: usize = 4096;

impl Assembly {
    /// Notes a listing that was made otherwise: what comes late and is older is ignored. It is what the API server says
    /// itself, so it also ends the reign of a version that was never given out, and of those before an etcd was restored.
    pub fn note(&mut self, version: u64) {
        self.done = version;
        self.current = None;
    }

    /// Takes a part; gives the listing once all parts are there. A newer listing discards an unfinished older one, an
    /// older one after a newer is ignored.
    pub fn add(&mut self, part: ListingPart) -> Option<Listing> {
        let newest = self.current.as_ref().map_or(0, |current| current.version).max(self.done);
        if part.parts == 0 || part.part >= part.parts || part.parts > MAX_PARTS || part.list_version < newest {
            return None;
        }
        let fits = |current: &Unfinished| {
            (current.version, current.parts.len(), current.epoch.as_str())
                == (part.list_version, part.parts, part.epoch.as_str())
        };
        if !self.current.as_ref().is_some_and(fits) {
            if part.list_version == self.done {
                return None;
            }
            self.current = Some(Unfinished {
                epoch: part.epoch.clone(),
                version: part.list_version,
                parts: std::iter::repeat_with(|| None).take(part.parts).collect(),
            });
        }
        let current = self.current.as_mut()?;
        let index = part.part;
        *current.parts.get_mut(index)? = Some(part);
        if current.parts.iter().any(Option::is_none) {
            return None;
        }
        let finished = self.current.take()?;
        self.done = finished.version;
        Some(join(finished))
    }
}

fn join(finished: Unfinished) -> Listing {
    let mut listing = Listing { scope: Vec::new(), version: finished.version, objects: Vec::new() };
    for part in finished.parts.into_iter().flatten() {
        listing.scope = part.scope;
        listing.objects.extend(part.objects.into_iter().map(|(namespace, name, uid, resource_version)| ObjectId {
            namespace,
            name,
            uid,
            resource_version,
        }));
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(version: u64, part: usize, parts: usize, name: &str) -> ListingPart {
        let object = ("ns".to_owned(), name.to_owned(), "uid".to_owned(), "1".to_owned());
        ListingPart {
            v: 1,
            epoch: "e".into(),
            kind: "agents".into(),
            scope: vec!["ns".into()],
            list_version: version,
            part,
            parts,
            objects: vec![object],
        }
    }

    #[test]
    fn parts_in_any_order_make_one_listing() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.add(part(7, 1, 2, "b")), None);
        let listing = assembly.add(part(7, 0, 2, "a")).unwrap();
        assert_eq!(listing.version, 7);
        assert_eq!(listing.objects.iter().map(|id| id.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_newer_listing_discards_an_unfinished_older_one_and_an_older_one_after_it_is_ignored() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.add(part(7, 0, 2, "a")), None);
        assert!(assembly.add(part(8, 0, 1, "c")).is_some());
        assert_eq!(assembly.add(part(7, 1, 2, "b")), None);
        assert_eq!(assembly.add(part(7, 0, 2, "a")), None);
        assert_eq!(assembly.add(part(8, 0, 1, "c")), None, "a repeated listing is no news");
    }

    #[test]
    fn an_own_listing_ends_the_reign_of_a_version_that_was_never_given_out() {
        let mut assembly = Assembly::default();
        assert!(assembly.add(part(u64::MAX, 0, 1, "a")).is_some());
        assert_eq!(assembly.add(part(7, 0, 1, "a")), None);
        assembly.note(8);
        assert_eq!(assembly.add(part(7, 0, 1, "a")), None, "older than the own one");
        assert!(assembly.add(part(9, 0, 1, "a")).is_some());
    }

    #[test]
    fn a_forged_part_number_is_refused_without_reserving_memory() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.add(part(7, 0, usize::MAX, "a")), None);
        assert_eq!(assembly.add(part(7, 2, 2, "a")), None);
        assert_eq!(assembly.add(part(7, 0, 0, "a")), None);
    }
}
