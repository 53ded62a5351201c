//! The validity period of a certificate, read from its DER (RFC 5280 §4.1.2.5). Reads only these two
//! dates; rustls validates the rest first.

use std::fmt;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use yasna::tags::TAG_UTCTIME;
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, BERReaderSeq, Tag};

/// The validity period of a certificate in seconds, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First second.
    pub not_before: Timestamp,
    /// Last second.
    pub not_after: Timestamp,
}

impl Validity {
    /// Reads it from a certificate in DER. `None` if the certificate or its dates are not valid.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        // yasna 0.6 adds the lengths of skipped values without a check, and panics if they are near 64
        // bits. rustls reads the same values and checks each length.
        ParsedCertificate::try_from(&CertificateDer::from(certificate)).ok()?;
        yasna::parse_der(certificate, |reader| {
            reader.read_sequence(|certificate| {
                let validity = certificate.next().read_sequence(to_be_signed)?;
                skip_rest(certificate)?;
                Ok(validity)
            })
        })
        .ok()
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

/// `TBSCertificate`: version (absent in version 1), serial number, signature algorithm, issuer,
/// validity, and fields that are not used here.
fn to_be_signed(fields: &mut BERReaderSeq<'_, '_>) -> ASN1Result<Validity> {
    fields.read_optional(|version| version.read_tagged(Tag::context(0), |it| it.read_u8()))?;
    for _ in ["serial number", "signature algorithm", "issuer"] {
        fields.next().read_der()?;
    }
    let validity = fields.next().read_sequence(|dates| {
        Ok(Validity {
            not_before: date(dates.next())?,
            not_after: date(dates.next())?,
        })
    })?;
    skip_rest(fields)?;
    Ok(validity)
}

fn skip_rest(fields: &mut BERReaderSeq<'_, '_>) -> ASN1Result<()> {
    while fields.read_optional(|field| field.read_der())?.is_some() {}
    Ok(())
}

fn date(reader: BERReader<'_, '_>) -> ASN1Result<Timestamp> {
    let invalid = || ASN1Error::new(ASN1ErrorKind::Invalid);
    let der = reader.read_der()?;
    // Digits and a Z, as RFC 5280 asks. yasna 0.6 reads offsets, too, and panics if one leads past the
    // year 9999 (GeneralizedTime::parse).
    let [_, _, digits @ .., b'Z'] = der.as_slice() else {
        return Err(invalid());
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(invalid());
    }
    let date = yasna::parse_der(&der, |reader| {
        Ok(match reader.lookahead_tag()? == TAG_UTCTIME {
            true => *reader.read_utctime()?.datetime(),
            false => *reader.read_generalized_time()?.datetime(),
        })
    })?;
    Timestamp::from_second(date.unix_timestamp()).map_err(|_| invalid())
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

    /// yasna adds such a length to its position unchecked.
    #[test]
    fn lengths_near_64_bits_are_no_panic() {
        for last in 0xe0..=0xff {
            let serial_number = [&[0x02, 0x88][..], &[0xff; 7], &[last]].concat();
            let to_be_signed = [&[0x30, 10][..], &serial_number].concat();
            let certificate = [&[0x30, 12][..], &to_be_signed].concat();
            assert_eq!(Validity::of(&certificate), None);
        }
    }

    /// yasna panics for this one.
    #[test]
    fn a_date_with_an_offset_is_no_date_and_no_panic() {
        let mut bytes = certificate(at("2026-01-01T00:00:00Z"), at("9999-12-30T21:23:16Z"));
        let date = b"99991230212316Z";
        let place = bytes.windows(date.len()).position(|it| it == date).unwrap();
        bytes[place..place + date.len()].copy_from_slice(b"9999123123-16;Z");
        assert_eq!(Validity::of(&bytes), None);
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
