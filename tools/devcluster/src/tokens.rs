//! A bearer token for each user of the API server, which checks the chain of a client certificate with
//! every request.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::{Result, write};

/// The tokens of a cluster's users.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<(String, String)>);

impl Tokens {
    /// Makes a token for each of `users`, a name and a group, and writes the API server's list of
    /// them.
    pub(crate) fn create(list: &Path, users: &[(&str, &str)]) -> Result<Self> {
        let random = rustls::crypto::ring::default_provider().secure_random;
        let (mut tokens, mut lines) = (Vec::new(), String::new());
        for (user, group) in users {
            let mut bytes = [0; 16];
            random
                .fill(&mut bytes)
                .map_err(|error| rustls::Error::General(format!("{error:?}")))?;
            let token = format!("{:032x}", u128::from_be_bytes(bytes));
            let _ = writeln!(lines, "{token},{user},{user},{group}");
            tokens.push(((*user).to_owned(), token));
        }
        write(list, lines)?;
        Ok(Self(tokens))
    }

    /// Returns the token of a user; that of a stranger is empty, and rejected.
    pub(crate) fn of(&self, user: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| name == user);
        found.map_or("", |(_, token)| token)
    }
}
