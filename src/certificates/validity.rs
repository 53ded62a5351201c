//! The validity period of a certificate, read from its DER (RFC 5280 §4.1.2.5). Reads only what leads to
//! these two dates; rustls checks the rest of a certificate before it is served.

use std::fmt;

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Decode as _, SliceReader, Tag};
use jiff::Timestamp;

/// The validity period of a certificate in seconds, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First second.
    pub not_before: Timestamp,
    /// Last second.
    pub not_after: Timestamp,
}

impl Validity {
    /// Reads it from a certificate in DER. `None` if that is no DER, or a date is not valid or before 1970.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let read = || {
            let mut certificate = inside(&mut SliceReader::new(certificate)?)?;
            // `TBSCertificate`: version (absent in version 1), serial number, signature algorithm, issuer,
            // validity.
            let mut fields = inside(&mut certificate)?;
            if Tag::peek(&fields)?.is_context_specific() {
                AnyRef::decode(&mut fields)?;
            }
            for _ in ["serial number", "signature algorithm", "issuer"] {
                AnyRef::decode(&mut fields)?;
            }
            let mut dates = inside(&mut fields)?;
            let (not_before, not_after) = (date(&mut dates)?, date(&mut dates)?);
            der::Result::Ok(Self {
                not_before,
                not_after,
            })
        };
        read().ok()
    }

    /// Whether `now` is within the period.
    pub fn contains(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.not_before, self.not_after);
        write!(formatter, "valid from {from} to {to}")
    }
}

/// The content of the next value.
fn inside<'a>(reader: &mut SliceReader<'a>) -> der::Result<SliceReader<'a>> {
    SliceReader::new(AnyRef::decode(reader)?.value())
}

fn date(dates: &mut SliceReader<'_>) -> der::Result<Timestamp> {
    let since_1970 = match Tag::peek(dates)? {
        Tag::UtcTime => UtcTime::decode(dates)?.to_unix_duration(),
        _ => GeneralizedTime::decode(dates)?.to_unix_duration(),
    };
    // `99991231235959Z` is the end of a certificate without one (RFC 5280 §4.1.2.5). A `Timestamp` ends a day
    // earlier.
    let date = Timestamp::UNIX_EPOCH.checked_add(since_1970);
    Ok(date.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::issue::tests::pair_for;
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A certificate with these dates, as encoded by rcgen: UTCTime before 2050, as RFC 5280 requires,
    /// and GeneralizedTime from then on.
    fn certificate(not_before: Timestamp, not_after: Timestamp) -> Vec<u8> {
        let (chain, _) = pair_for("localhost", not_before, not_after);
        super::super::pair::certificates(chain.as_bytes())
            .unwrap()
            .remove(0)
            .to_vec()
    }

    #[test]
    fn dates_before_and_after_2050_are_read_to_the_second() {
        let (from, to) = (at("2026-11-21T07:39:01Z"), at("2093-01-02T03:04:05Z"));
        let read = Validity::of(&certificate(from, to)).unwrap();
        assert_eq!(
            read,
            Validity {
                not_before: from,
                not_after: to
            }
        );
    }

    #[test]
    fn both_ends_are_valid_and_the_seconds_around_them_are_not() {
        let (from, to) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
        let validity = Validity::of(&certificate(from, to)).unwrap();
        let second = jiff::SignedDuration::from_secs(1);
        assert!(validity.contains(from) && validity.contains(to));
        assert!(!validity.contains(from - second) && !validity.contains(to + second));
    }

    /// In place of any field. yasna 0.6 adds such a length to its position without a check.
    #[test]
    fn lengths_near_64_bits_are_no_panic() {
        let bytes = certificate(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
        assert!(Validity::of(&bytes).is_some());
        for place in 0..bytes.len() - 10 {
            for last in [0x00, 0x7f, 0xe0, 0xff] {
                let mut bytes = bytes.clone();
                bytes[place + 1] = 0x88;
                bytes[place + 2..place + 9].fill(0xff);
                bytes[place + 9] = last;
                let _ = Validity::of(&bytes);
            }
        }
    }

    /// A certificate whose last date is these bytes.
    fn until(bytes: &[u8; 15]) -> Vec<u8> {
        let mut certificate = certificate(at("2026-01-01T00:00:00Z"), at("9999-12-30T21:23:16Z"));
        let date = b"99991230212316Z";
        let mut windows = certificate.windows(date.len());
        let place = windows.position(|it| it == date).unwrap();
        certificate[place..place + date.len()].copy_from_slice(bytes);
        certificate
    }

    /// yasna 0.6 panics for this one.
    #[test]
    fn a_date_with_an_offset_is_no_date_and_no_panic() {
        assert_eq!(Validity::of(&until(b"9999123123-16;Z")), None);
    }

    #[test]
    fn a_certificate_that_never_expires_is_valid_to_the_last_time() {
        let validity = Validity::of(&until(b"99991231235959Z")).unwrap();
        assert_eq!(validity.not_before, at("2026-01-01T00:00:00Z"));
        assert_eq!(validity.not_after, Timestamp::MAX);
        assert!(validity.contains(at("9999-12-30T21:00:00Z")));
    }

    proptest! {
        #[test]
        fn garbage_is_no_certificate_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Validity::of(&bytes), None);
        }

        #[test]
        fn a_damaged_certificate_is_no_panic(cut in 0_usize..600, place in 0_usize..600, value: u8) {
            let mut bytes = certificate(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
            if let Some(byte) = bytes.get_mut(place) {
                *byte = value;
            }
            bytes.truncate(cut);
            let _ = Validity::of(&bytes);
        }
    }
}
