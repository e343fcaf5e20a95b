//! Records that users write: switch timing, relay costs, policies, failures.
//!
//! [`records!`](crate::records) defines such a record in one table, which says for every field its
//! name as users write it, with its unit, its default and its description. JSON, the Python class,
//! the tables of files, options and their help are made from that table: a field stands nowhere
//! else. What is written is checked once, where the record is made of it.

use crate::choice::Choice;
use crate::invalid::Invalid;
use crate::units::{CircuitRate, Duration, PS_PER_S, Rate};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest time that can be written, in seconds: times are whole picoseconds in 64 bits.
pub const MAX_SECONDS: f64 = 1e6;

/// The highest rate that can be written, in Gb/s.
pub const MAX_GBPS: f64 = 1e9;

/// The lowest rate that anything is sent at, in Gb/s.
pub const MIN_GBPS: f64 = 1e-9;

/// The largest size that can be written.
const MAX_BYTES: u64 = 1 << 62;

/// One field of a record, as users write it.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name, with its unit.
    pub name: &'static str,
    /// What it is: sentences.
    pub description: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// What it is if it is not written; it must be if absent.
    pub default: Option<Plain>,
}

/// What a field takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Takes {
    /// True or false.
    Flag,
    /// A quantity in the unit of the name, within these limits.
    Quantity(f64, f64),
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// A name of the set of choices that has this key.
    Name(&'static str),
    /// Any number of entries, each of one whole number, or of a pair.
    Entries {
        /// Whether they are pairs.
        pairs: bool,
    },
    /// A record of this name.
    Record(&'static str),
    /// One for all servers, or one for each.
    PerServer(&'static Takes),
    /// Whether each pair of servers, row after row.
    Pairs,
}

/// A value as users write it.
#[derive(Debug, Clone, PartialEq)]
pub enum Plain {
    /// True or false.
    Flag(bool),
    /// A number in the unit of the name.
    Number(f64),
    /// A whole number in the unit of the name.
    Whole(u64),
    /// A name.
    Name(String),
    /// No entries.
    Empty,
    /// No value at all, such as no limit.
    Nothing,
}

impl From<bool> for Plain {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<f64> for Plain {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u16> for Plain {
    fn from(number: u16) -> Self {
        Self::Whole(number.into())
    }
}

impl From<u64> for Plain {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<String> for Plain {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

/// The default of entries is that there are none.
impl<T> From<Vec<T>> for Plain {
    fn from(_: Vec<T>) -> Self {
        Self::Empty
    }
}

/// The default of a record within a record is that there is none.
impl<T: Record> From<T> for Plain {
    fn from(_: T) -> Self {
        Self::Nothing
    }
}

impl<T: Into<Self>> From<Option<T>> for Plain {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

/// A value that a record has.
pub trait Value: Sized {
    /// What it takes.
    const TAKES: Takes;
    /// What users write.
    type Written: Serialize + DeserializeOwned + Into<Plain>;

    /// The value of what was written.
    ///
    /// # Errors
    /// Names the field and what was expected.
    fn read(written: Self::Written, name: &str) -> Result<Self, Invalid>;

    /// What is written for the value.
    fn write(&self) -> Self::Written;
}

impl Value for bool {
    const TAKES: Takes = Takes::Flag;
    type Written = bool;

    fn read(written: bool, _: &str) -> Result<Self, Invalid> {
        Ok(written)
    }

    fn write(&self) -> bool {
        *self
    }
}

/// In seconds; the nearest whole picosecond, of two the even one.
impl Value for Duration {
    const TAKES: Takes = Takes::Quantity(0.0, MAX_SECONDS);
    type Written = f64;

    fn read(written: f64, name: &str) -> Result<Self, Invalid> {
        if !(0.0..=MAX_SECONDS).contains(&written) {
            return Err(Invalid(format!("{name}: expected 0 to 1e6 s, got {written}")));
        }
        Ok(Self((written * PS_PER_S as f64).round_ties_even() as u64))
    }

    fn write(&self) -> f64 {
        self.as_seconds()
    }
}

/// In Gb/s; no limit if absent or infinite.
impl Value for Option<Rate> {
    const TAKES: Takes = Takes::Quantity(MIN_GBPS, MAX_GBPS);
    type Written = Option<f64>;

    fn read(written: Option<f64>, name: &str) -> Result<Self, Invalid> {
        match written.filter(|gbps| *gbps != f64::INFINITY) {
            Some(gbps) => rate_of(gbps, name, MIN_GBPS).map(Some),
            None => Ok(None),
        }
    }

    fn write(&self) -> Option<f64> {
        self.map(|rate| rate.0 as f64 / 1e9)
    }
}

/// In Gb/s; none if it is 0.
impl Value for Rate {
    const TAKES: Takes = Takes::Quantity(0.0, MAX_GBPS);
    type Written = f64;

    fn read(written: f64, name: &str) -> Result<Self, Invalid> {
        rate_of(written, name, 0.0)
    }

    fn write(&self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// In Gb/s.
impl Value for CircuitRate {
    const TAKES: Takes = Takes::Quantity(MIN_GBPS, MAX_GBPS);
    type Written = f64;

    fn read(written: f64, name: &str) -> Result<Self, Invalid> {
        Self::new(rate_of(written, name, MIN_GBPS)?)
    }

    fn write(&self) -> f64 {
        self.rate().write()
    }
}

/// A number of parts of one server.
impl Value for u16 {
    const TAKES: Takes = Takes::Whole(0, u16::MAX as u64);
    type Written = u64;

    fn read(written: u64, name: &str) -> Result<Self, Invalid> {
        Self::try_from(written)
            .map_err(|_| Invalid(format!("{name}: expected 0 to {}, got {written}", Self::MAX)))
    }

    fn write(&self) -> u64 {
        u64::from(*self)
    }
}

/// A number of parts of one server, if it is known.
impl Value for Option<u16> {
    const TAKES: Takes = u16::TAKES;
    type Written = Option<u64>;

    fn read(written: Option<u64>, name: &str) -> Result<Self, Invalid> {
        written.map(|count| u16::read(count, name)).transpose()
    }

    fn write(&self) -> Option<u64> {
        self.map(u64::from)
    }
}

/// In bytes.
impl Value for u64 {
    const TAKES: Takes = Takes::Whole(0, MAX_BYTES);
    type Written = u64;

    fn read(written: u64, name: &str) -> Result<Self, Invalid> {
        if written > MAX_BYTES {
            return Err(Invalid(format!("{name}: expected at most 2^62, got {written}")));
        }
        Ok(written)
    }

    fn write(&self) -> u64 {
        *self
    }
}

/// In bytes; no limit if absent.
impl Value for Option<u64> {
    const TAKES: Takes = u64::TAKES;
    type Written = Self;

    fn read(written: Self, name: &str) -> Result<Self, Invalid> {
        written.map(|bytes| u64::read(bytes, name)).transpose()
    }

    fn write(&self) -> Self {
        *self
    }
}

/// By name.
impl<T: Choice> Value for T {
    const TAKES: Takes = Takes::Name(T::KEY);
    type Written = String;

    fn read(written: String, name: &str) -> Result<Self, Invalid> {
        T::parse_as(name, &written)
    }

    fn write(&self) -> String {
        self.name().into()
    }
}

/// Indices.
impl Value for Vec<u32> {
    const TAKES: Takes = Takes::Entries { pairs: false };
    type Written = Self;

    fn read(written: Self, _: &str) -> Result<Self, Invalid> {
        Ok(written)
    }

    fn write(&self) -> Self {
        self.clone()
    }
}

/// Pairs of indices.
impl Value for Vec<(u32, u32)> {
    const TAKES: Takes = Takes::Entries { pairs: true };
    type Written = Self;

    fn read(written: Self, _: &str) -> Result<Self, Invalid> {
        Ok(written)
    }

    fn write(&self) -> Self {
        self.clone()
    }
}

/// Another record, or none.
impl<T: Record + Clone> Value for Option<T> {
    const TAKES: Takes = Takes::Record(T::NAME);
    type Written = Self;

    fn read(written: Self, _: &str) -> Result<Self, Invalid> {
        Ok(written)
    }

    fn write(&self) -> Self {
        self.clone()
    }
}

/// One value for all servers, or one for each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected one number, or a list of one per server")]
pub enum PerServer<T> {
    /// The same for all.
    All(T),
    /// In the order of the servers.
    Each(Vec<T>),
}

impl<T: Copy> PerServer<T> {
    /// The value of each of so many servers.
    ///
    /// # Errors
    /// If there are more or fewer.
    pub fn each(&self, servers: usize, name: &str) -> Result<Vec<T>, Invalid> {
        match self {
            Self::All(value) => Ok(vec![*value; servers]),
            Self::Each(values) if values.len() == servers => Ok(values.clone()),
            Self::Each(values) => {
                let given = values.len();
                Err(Invalid(format!("{name}: expected one number or {servers}, got {given}")))
            }
        }
    }
}

impl<T: Value> Value for PerServer<T> {
    const TAKES: Takes = Takes::PerServer(&T::TAKES);
    type Written = PerServer<T::Written>;

    fn read(written: Self::Written, name: &str) -> Result<Self, Invalid> {
        Ok(match written {
            PerServer::All(value) => Self::All(T::read(value, name)?),
            PerServer::Each(values) => {
                let read = values.into_iter().map(|value| T::read(value, name));
                Self::Each(read.collect::<Result<_, _>>()?)
            }
        })
    }

    fn write(&self) -> Self::Written {
        match self {
            Self::All(value) => PerServer::All(value.write()),
            Self::Each(values) => PerServer::Each(values.iter().map(Value::write).collect()),
        }
    }
}

/// The default of one per server is none.
impl<T: Into<Self>> From<PerServer<T>> for Plain {
    fn from(values: PerServer<T>) -> Self {
        match values {
            PerServer::All(value) => value.into(),
            PerServer::Each(_) => Self::Empty,
        }
    }
}

/// Pairs of servers, either way round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pairs {
    servers: usize,
    cells: Vec<bool>,
}

impl Pairs {
    /// The pairs that are true in a matrix, row after row.
    ///
    /// # Errors
    /// If it is not square and symmetric.
    pub fn new(servers: usize, cells: Vec<bool>, name: &str) -> Result<Self, Invalid> {
        let is_symmetric = || {
            (0..servers).all(|a| (0..a).all(|b| cells[a * servers + b] == cells[b * servers + a]))
        };
        if cells.len() == servers * servers && is_symmetric() {
            return Ok(Self { servers, cells });
        }
        Err(Invalid(format!("{name}: expected a symmetric square matrix of true and false")))
    }

    /// Number of servers, n.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// Whether each pair is one of them, n x n.
    pub fn cells(&self) -> &[bool] {
        &self.cells
    }
}

/// A matrix; all pairs if absent.
impl Value for Option<Pairs> {
    const TAKES: Takes = Takes::Pairs;
    type Written = Option<Vec<Vec<bool>>>;

    fn read(written: Self::Written, name: &str) -> Result<Self, Invalid> {
        let Some(rows) = written else { return Ok(None) };
        let servers = rows.len();
        let is_square = rows.iter().all(|row| row.len() == servers);
        let cells = if is_square { rows.concat() } else { Vec::new() };
        Pairs::new(servers, cells, name).map(Some)
    }

    fn write(&self) -> Self::Written {
        let Pairs { servers, cells } = self.as_ref()?;
        Some(cells.chunks_exact((*servers).max(1)).map(<[bool]>::to_vec).collect())
    }
}

/// The rate of so many Gb/s, to the nearest whole bit per second, of two the even one.
///
/// # Errors
/// If it is below the minimum or above [`MAX_GBPS`].
pub fn rate_of(gbps: f64, name: &str, minimum: f64) -> Result<Rate, Invalid> {
    if !(minimum..=MAX_GBPS).contains(&gbps) {
        return Err(Invalid(format!("{name}: expected {minimum} to 1e9 Gb/s, got {gbps}")));
    }
    Ok(Rate((gbps * 1e9).round_ties_even() as u64))
}

/// A record that users write; implemented by [`records!`](crate::records).
pub trait Record: Serialize + DeserializeOwned {
    /// Its name, that of the class in Python.
    const NAME: &'static str;

    /// Its fields, in order.
    fn fields() -> Vec<Field>;
}

/// Defines records from tables of their fields: `field = written: type = default, description`. A
/// field without a default has to be written.
///
/// ```
/// use lightloom_model::{Duration, Record};
///
/// lightloom_model::records! {
///     /// How long a door takes.
///     #[derive(Debug, PartialEq)]
///     pub struct Door {
///         opening = opening_s: Duration, "Time to open it.";
///         creaks = creaks: bool = false, "Whether it is heard.";
///     }
/// }
/// let door: Door = serde_json::from_str(r#"{"opening_s": 2.5}"#).unwrap();
/// assert_eq!(door, Door { opening: Duration(2_500_000_000_000), creaks: false });
/// assert_eq!(Door::fields()[1].name, "creaks");
/// ```
#[macro_export]
macro_rules! records {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $record:ident {
            $(
                $field:ident = $written:ident: $kind:ty $(= $default:expr)?, $description:literal;
            )+
        }
    )+) => { $(
        $(#[$attribute])*
        $visibility struct $record {
            $(
                #[doc = $description]
                pub $field: $kind,
            )+
        }

        impl $crate::Record for $record {
            const NAME: &'static str = stringify!($record);

            fn fields() -> Vec<$crate::record::Field> {
                vec![$({
                    #[allow(unused_mut, unused_assignments, reason = "not all have defaults")]
                    let mut default: Option<$kind> = None;
                    $(default = Some($default);)?
                    $crate::record::Field {
                        name: stringify!($written),
                        description: $description,
                        takes: <$kind as $crate::record::Value>::TAKES,
                        default: default
                            .map(|value| $crate::record::Value::write(&value).into()),
                    }
                }),+]
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $record {
            fn deserialize<D: ::serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                #[derive(::serde::Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Given {
                    $($written: Option<<$kind as $crate::record::Value>::Written>,)+
                }
                let given = Given::deserialize(source)?;
                Ok(Self { $($field: match given.$written {
                    Some(written) => $crate::record::Value::read(written, stringify!($written))
                        .map_err(::serde::de::Error::custom)?,
                    None => $crate::records!(
                        @default $($default)?,
                        ::serde::de::Error::missing_field(stringify!($written))
                    ),
                },)+ })
            }
        }

        impl ::serde::Serialize for $record {
            fn serialize<S: ::serde::Serializer>(&self, target: S) -> Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeStruct;
                let names = [$(stringify!($written)),+];
                let mut fields = target.serialize_struct(stringify!($record), names.len())?;
                $(fields.serialize_field(
                    stringify!($written),
                    &$crate::record::Value::write(&self.$field),
                )?;)+
                fields.end()
            }
        }
    )+ };
    (@default $default:expr, $missing:expr) => { $default };
    (@default , $missing:expr) => { return Err($missing) };
}
