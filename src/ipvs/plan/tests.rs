//! Hand-made plans; the properties over random tables are in [`super::super::memory`]'s tests.
