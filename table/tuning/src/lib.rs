//! How a table is best set up on some network, as a small file: `probeline tune` measures and
//! writes it, every command that has a table takes it with `--tuning FILE`, and a program loads it.
//!
//! ```
//! use probeline_tuning::Tuning;
//!
//! # let path = std::env::temp_dir().join(format!("tuning-{}.toml", std::process::id()));
//! # std::fs::write(&path, Tuning::default().to_toml())?;
//! let tuning = Tuning::load(&path)?;
//! # std::fs::remove_file(&path)?;
//! let config = tuning.config(1 << 20);
//! assert_eq!(config.buckets_per_owner, 1 << 20);
//!
//! // Storage for the operations, and slots of the transport for their chunks.
//! let operations = vec![probeline_table::Operation::EMPTY; tuning.operations() as usize];
//! let slots = probeline_table::Config::slots(tuning.operations());
//! let cache = vec![probeline_table::CacheEntry::EMPTY; tuning.cache_entries];
//! # assert_eq!((operations.len(), slots, cache.len()), (32, 64, 0));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod file;

pub use error::{LoadError, ParseError};
pub use file::{Expected, Tuning, VERSION};
