//! What rank 0 publishes by a launcher's server before the ranks have met.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::net::TcpListener;

use crate::error::JoinError;
use crate::machine::addresses;
use crate::secret::Secret;
use crate::spawn::listen_on_loopback;

/// The maximum number of addresses of a card: the others try each in turn, and all fit the shortest
/// value that a launcher accepts, 900 bytes of PMI-1.
const MAX_ADDRESSES: usize = 8;

/// The addresses at which rank 0 listens, and the job's secret.
#[derive(Debug)]
pub(crate) struct BusinessCard {
    /// The secret that rank 0 has created; `None` if the ranks were given a secret.
    pub(crate) secret: Option<Secret>,
    /// The addresses of rank 0, at least one. Other machines may have some of them too.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl BusinessCard {
    /// Listens at a free port: of loopback if all ranks are on one machine, else of all addresses.
    pub(crate) fn listen(
        one_machine: bool,
        secret: Option<Secret>,
    ) -> Result<(TcpListener, Self), JoinError> {
        let (listener, addresses) = if one_machine {
            let (listener, address) = listen_on_loopback()?;
            (listener, vec![address])
        } else {
            listen_on_all()?
        };
        Ok((listener, Self { secret, addresses }))
    }

    /// Encodes the card as a text that every launcher's server accepts.
    pub(crate) fn to_text(&self) -> String {
        let secret = self.secret.iter().map(|secret| String::from_utf8_lossy(secret.bytes()));
        let secret = secret.collect();
        let addresses = self.addresses.iter().map(SocketAddr::to_string);
        [secret].into_iter().chain(addresses).collect::<Vec<_>>().join(",")
    }

    /// Parses the text of [`to_text`](Self::to_text).
    pub(crate) fn from_text(text: &str) -> Result<Self, JoinError> {
        let (secret, addresses) = text.split_once(',').ok_or(JoinError::BadBusinessCard)?;
        let addresses: Result<_, _> = addresses.split(',').map(str::parse).collect();
        let addresses = addresses.map_err(|_| JoinError::BadBusinessCard)?;
        let secret = (!secret.is_empty()).then(|| Secret::new(secret.into()));
        Ok(Self { secret: secret.transpose()?, addresses })
    }
}

fn listen_on_all() -> Result<(TcpListener, Vec<SocketAddr>), JoinError> {
    // An IPv6 socket accepts connections of both families, if the machine has IPv6.
    let all = [(Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::UNSPECIFIED, 0).into()];
    let listener = TcpListener::bind(&all[..])
        .map_err(|error| JoinError::Listen { address: "all addresses".to_owned(), error })?;
    let system =
        |error| JoinError::System { doing: "listing the addresses of this machine", error };
    let bound = listener.local_addr().map_err(system)?;
    let addresses: Vec<_> = addresses()
        .map_err(system)?
        .into_iter()
        .filter(|address| address.is_ipv4() || bound.is_ipv6())
        .map(|address| (address, bound.port()).into())
        .take(MAX_ADDRESSES)
        .collect();
    if addresses.is_empty() {
        return Err(JoinError::NoAddress);
    }
    Ok((listener, addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_arrives_unchanged_and_fits_every_launcher() {
        let longest = "[2001:db8:1111:2222:3333:4444:5555:6666]:65535";
        let addresses = vec![longest.parse().unwrap(); MAX_ADDRESSES];
        for secret in [Some(Secret::random().unwrap()), None] {
            let card = BusinessCard { secret, addresses: addresses.clone() };
            let text = card.to_text();
            assert!(text.len() <= 900 && text.chars().all(|c| c.is_ascii_graphic() && c != '='));
            let read = BusinessCard::from_text(&text).unwrap();
            let [read_secret, secret] =
                [&read, &card].map(|card| card.secret.as_ref().map(Secret::bytes));
            assert_eq!(read_secret, secret);
            assert_eq!(read.addresses, addresses);
        }
    }

    #[test]
    fn a_malformed_card_is_an_error() {
        let secret = "0".repeat(64);
        let texts = ["", &secret, ",", &format!("{secret},"), &format!("{secret},a:b")];
        for text in texts {
            assert!(
                matches!(BusinessCard::from_text(text), Err(JoinError::BadBusinessCard)),
                "{text}"
            );
        }
        let short = BusinessCard::from_text("00,127.0.0.1:7");
        assert!(matches!(short, Err(JoinError::Secret(_))), "{short:?}");
    }

    #[test]
    fn one_machine_listens_on_loopback() {
        let (listener, card) = BusinessCard::listen(true, None).unwrap();
        assert_eq!(card.addresses, [listener.local_addr().unwrap()]);
        assert!(card.addresses[0].ip().is_loopback());
    }
}
