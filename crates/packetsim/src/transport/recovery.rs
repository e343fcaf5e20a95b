//! How NICs of reliable connections recover.

use lightloom_model::choices;

choices! {
    /// What NICs do about packets that are missing.
    pub enum Recovery: "recovery" {
        Auto = "auto": "Selective where the routing lets packets overtake, else go-back-n",
        GoBackN = "go-back-n": "Accepts packets in order; all after a missing one are sent again",
        Selective = "selective": "Places packets in any order; the missing ones are sent again",
    }
}
