//! Choices as their names, for fields with `#[serde(with = "by_name")]`.

use crate::choice::Choice;
use serde::{Deserialize, Deserializer, Serializer, de::Error};
use std::borrow::Cow;

/// Writes the name.
///
/// # Errors
/// If the serializer refuses text.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub fn serialize<T: Choice, S: Serializer>(choice: &T, form: S) -> Result<S::Ok, S::Error> {
    form.serialize_str(choice.name())
}

/// Reads the choice of a name.
///
/// # Errors
/// If there is none of that name; lists the names.
pub fn deserialize<'de, T: Choice, D: Deserializer<'de>>(form: D) -> Result<T, D::Error> {
    let name = Cow::<str>::deserialize(form)?;
    T::parse(&name).map_err(D::Error::custom)
}
