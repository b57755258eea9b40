//! How containers are opened, and blocks of bytes of a size chosen at run time: elements of arrays, values of
//! queues and messages.

/// The most bytes of a block.
pub(crate) const MAX_BYTES: usize = 1024;

/// Evaluates an expression with a type that has room for blocks of this many bytes. That of 8 bytes is the
/// word, on which atomics act.
macro_rules! with_block {
    ($bytes:expr, $block:ident => $body:expr) => {
        match $bytes {
            8 => {
                type $block = u64;
                $body
            }
            ..=64 => {
                type $block = probeline::containers::Bytes<64>;
                $body
            }
            _ => {
                type $block = probeline::containers::Bytes<{ crate::blocks::MAX_BYTES }>;
                $body
            }
        }
    };
}
pub(crate) use with_block;

/// Opens a container of this type on an engine of these sizes.
macro_rules! open_container {
    ($container:ty, $members:ident, $config:ident, $sizes:ident, $operations:ident) => {{
        let engine = $members.open($sizes)?;
        let storage = vec![Operation::EMPTY; $operations as usize];
        <$container>::open(engine, $config, storage, $members.exchange())?
    }};
}
pub(crate) use open_container;
