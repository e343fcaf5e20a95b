//! Closed sets of named choices: allocators, policies, transports.
//!
//! [`choices!`](crate::choices) defines such a set as an enum in one table, which says for every
//! choice its name in text and its description in one line. Parsing, error messages, the options of
//! the command line and the reference are made from that table, so that a name stands nowhere else.

use crate::invalid::Invalid;

/// One of a closed set of named choices; implemented by [`choices!`](crate::choices).
pub trait Choice: Copy + 'static {
    /// The key that a choice is given under, such as `allocator`.
    const KEY: &'static str;
    /// Every choice, in the order in which messages list them.
    const ALL: &'static [Self];

    /// Its name in text.
    fn name(self) -> &'static str;

    /// What it is, in one line without a full stop.
    fn description(self) -> &'static str;

    /// The choice of this name.
    ///
    /// # Errors
    /// If there is none; lists the names.
    fn parse(name: &str) -> Result<Self, Invalid> {
        Self::parse_as(Self::KEY, name)
    }

    /// The choice of this name, which was given under another key.
    ///
    /// # Errors
    /// As [`Self::parse`].
    fn parse_as(key: &str, name: &str) -> Result<Self, Invalid> {
        let choice = Self::ALL.iter().copied().find(|choice| choice.name() == name);
        choice.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|choice| choice.name()).collect();
            let names = names.join(", ");
            Invalid(format!("{key} = '{}': expected one of {names}", shown(name)))
        })
    }
}

/// Longest wrong name that a message repeats, in characters.
const MAX_SHOWN: usize = 60;

fn shown(name: &str) -> String {
    // also what separates lines without being a control character
    let is_blank = |one: char| one.is_control() || one.is_whitespace();
    let printable = name.chars().map(|one| if is_blank(one) { ' ' } else { one });
    printable.take(MAX_SHOWN).collect()
}

/// Defines an enum without fields from a table of names and descriptions.
///
/// ```
/// lightloom_model::choices! {
///     /// How a thing is painted.
///     pub enum Color: "color" {
///         Red = "red": "The color of alarms",
///         Green = "green": "The color of go",
///     }
/// }
/// assert_eq!("green".parse(), Ok(Color::Green));
/// assert_eq!(Color::Red.to_string(), "red");
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $set:ident: $key:literal {
            $($choice:ident = $name:literal: $description:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $set {
            $(
                #[doc = $description]
                $choice,
            )+
        }

        impl $set {
            /// Every choice, in the order in which messages list them.
            pub const ALL: &'static [Self] = &[$(Self::$choice),+];

            /// Its name in text.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$choice => $name),+
                }
            }
        }

        impl $crate::Choice for $set {
            const KEY: &'static str = $key;
            const ALL: &'static [Self] = Self::ALL;

            fn name(self) -> &'static str {
                Self::name(self)
            }

            fn description(self) -> &'static str {
                match self {
                    $(Self::$choice => $description),+
                }
            }
        }

        impl ::core::str::FromStr for $set {
            type Err = $crate::Invalid;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                <Self as $crate::Choice>::parse(name)
            }
        }

        impl ::core::fmt::Display for $set {
            fn fmt(&self, formatter: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                formatter.pad(self.name())
            }
        }
    };
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro is for public enums")]
mod tests {
    use crate::Choice;

    choices! {
        /// Sizes of shirts.
        enum Size: "size" {
            Small = "small": "Fits children",
            ExtraLarge = "extra-large": "Fits giants",
        }
    }

    #[test]
    fn names_and_choices_are_one_to_one() {
        for &size in Size::ALL {
            assert_eq!(size.name().parse(), Ok(size));
            assert_eq!(size.to_string(), size.name());
        }
        assert_eq!(format!("{:>6}|", Size::Small), " small|");
        assert_eq!(Size::ExtraLarge.description(), "Fits giants");
    }

    #[test]
    fn an_unknown_name_is_answered_by_the_known_ones() {
        let text = |name: &str| name.parse::<Size>().unwrap_err().to_string();
        assert_eq!(text("Small"), "size = 'Small': expected one of small, extra-large");
        assert_eq!(text("a\nb"), "size = 'a b': expected one of small, extra-large");
        assert_eq!(text("a\u{2028}b"), "size = 'a b': expected one of small, extra-large");
        assert_eq!(text(&"x".repeat(10_000)).len(), text("").len() + 60);
    }
}
