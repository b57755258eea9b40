//! Setters of the options of an engine.

/// Declares methods of a builder that set the field of the same name.
#[macro_export]
macro_rules! setters {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)*) => {
        $(
            $(#[$meta])*
            #[must_use]
            pub fn $name(mut self, $name: $type) -> Self {
                self.$name = $name;
                self
            }
        )*
    };
}
