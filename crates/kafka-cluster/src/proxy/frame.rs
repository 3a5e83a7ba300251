//! What the proxy reads of a request: its header, and the first fields of the body where rules ask for them.

/// The longest frame that is passed on, in bytes: what a broker takes by default (`socket.request.max.bytes`).
pub(super) const FRAME_MAX: u32 = 104_857_600;

/// How much of a request is looked at, in bytes. The header's client id, a transactional id and a topic's name fit, at usual lengths; what does not
/// is taken for absent.
pub(super) const HEAD_MAX: usize = 4096;

/// The kind of a request: its `api_key` in Kafka's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiKey(pub i16);

impl ApiKey {
    /// Records for partitions.
    pub const PRODUCE: Self = Self(0);
    /// Records of partitions.
    pub const FETCH: Self = Self(1);
    /// Ends and log starts of partitions.
    pub const LIST_OFFSETS: Self = Self(2);
    /// Brokers and topics.
    pub const METADATA: Self = Self(3);
    /// Positions of a group, outside transactions.
    pub const OFFSET_COMMIT: Self = Self(8);
    /// A group's committed positions.
    pub const OFFSET_FETCH: Self = Self(9);
    /// Which broker coordinates a group or a transactional id.
    pub const FIND_COORDINATOR: Self = Self(10);
    /// A member joins its group's next generation.
    pub const JOIN_GROUP: Self = Self(11);
    /// A member lives.
    pub const HEARTBEAT: Self = Self(12);
    /// A member leaves.
    pub const LEAVE_GROUP: Self = Self(13);
    /// A member asks for its assignment.
    pub const SYNC_GROUP: Self = Self(14);
    /// What the broker serves; the first request of a connection.
    pub const API_VERSIONS: Self = Self(18);
    /// A producer's identity and epoch.
    pub const INIT_PRODUCER_ID: Self = Self(22);
    /// Partitions that a transaction is about to write to.
    pub const ADD_PARTITIONS_TO_TXN: Self = Self(24);
    /// A group whose positions a transaction is about to move.
    pub const ADD_OFFSETS_TO_TXN: Self = Self(25);
    /// Commit or abort.
    pub const END_TXN: Self = Self(26);
    /// Positions of a group, in a transaction.
    pub const TXN_OFFSET_COMMIT: Self = Self(28);
}

/// What is known of a request when its first bytes are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) api: ApiKey,
    pub(super) correlation: i32,
    pub(super) client_id: Option<String>,
    /// Of requests that begin with one.
    pub(super) transactional_id: Option<String>,
    /// Of a Produce request: the first partition that it is for. librdkafka sends no request for two.
    pub(super) partition: Option<(String, i32)>,
    /// Of a Metadata request: the topics that it asks for by name, as far as they were looked at.
    pub(super) asked_for: Vec<String>,
    /// Whether the broker will answer: not a Produce request that waits for no acknowledgement.
    pub(super) is_answered: bool,
}

impl Head {
    /// Reads the first bytes of a request, which follow its length; `None` when that is no header of a request.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (api, version) = (ApiKey(fields.int16()?), fields.int16()?);
        let mut head = Self {
            api,
            correlation: fields.int32()?,
            client_id: fields.string(false)?,
            transactional_id: None,
            partition: None,
            asked_for: Vec::new(),
            is_answered: true,
        };
        if api.0 < 0 || version < 0 {
            return None;
        }
        // What cannot be read of the body is not known: rules that ask for it do not match.
        let _ = head.read_body(version, &mut fields);
        Some(head)
    }

    fn read_body(&mut self, version: i16, fields: &mut Fields<'_>) -> Option<()> {
        if self.api == ApiKey::METADATA {
            return self.read_asked_for(version, fields);
        }
        let (first_with_id, last_with_id, first_flexible) = match self.api {
            ApiKey::PRODUCE => (3, i16::MAX, 9),
            ApiKey::INIT_PRODUCER_ID => (0, i16::MAX, 2),
            // From version 4 on it names several transactions, and only brokers send it.
            ApiKey::ADD_PARTITIONS_TO_TXN => (0, 3, 3),
            ApiKey::ADD_OFFSETS_TO_TXN | ApiKey::END_TXN | ApiKey::TXN_OFFSET_COMMIT => {
                (0, i16::MAX, 3)
            }
            _ => return None,
        };
        let is_flexible = version >= first_flexible;
        if is_flexible {
            fields.tags()?;
        }
        if (first_with_id..=last_with_id).contains(&version) {
            self.transactional_id = fields.string(is_flexible)?;
        }
        if self.api == ApiKey::PRODUCE {
            self.is_answered = fields.int16()? != 0;
            let _timeout = fields.int32()?;
            // From version 13 on topics go by their UUIDs, which no rule asks for.
            if version < 13 && fields.count(is_flexible)? > 0 {
                let topic = fields.string(is_flexible)??;
                if fields.count(is_flexible)? > 0 {
                    self.partition = Some((topic, fields.int32()?));
                }
            }
        }
        Some(())
    }

    fn read_asked_for(&mut self, version: i16, fields: &mut Fields<'_>) -> Option<()> {
        let is_flexible = version >= 9;
        if is_flexible {
            fields.tags()?;
        }
        for _ in 0..fields.count(is_flexible)? {
            if version >= 10 {
                let _uuid = fields.take(16)?;
            }
            self.asked_for.extend(fields.string(is_flexible)?);
            if is_flexible {
                fields.tags()?;
            }
        }
        Some(())
    }
}

/// The name of a topic that there is not, as long as this one.
pub(super) fn stranger_of(topic: &str) -> String {
    let mut name = topic.to_owned();
    let last = name.pop();
    name.push(if last == Some('x') { 'y' } else { 'x' });
    name
}

/// Puts one name in the place of another of the same length wherever that stands as a string of the protocol, behind its length.
pub(super) fn put_in_place_of(bytes: &mut [u8], name: &str, other: &str) {
    let (name, other) = (name.as_bytes(), other.as_bytes());
    // In the older form the length, in the compact one the length and one; of both the last byte, which is all for names of usual lengths.
    let lengths = [name.len() as u8, (name.len() + 1) as u8];
    for place in 1..bytes.len() {
        let is_behind_length = lengths.contains(&bytes[place - 1]);
        if is_behind_length && bytes[place..].starts_with(other) {
            bytes[place..place + name.len()].copy_from_slice(name);
        }
    }
}

/// Bytes that are left to read. Every read gives `None` when they do not suffice.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(len)?;
        self.0 = left;
        Some(taken)
    }

    fn int16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn int32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// An unsigned number of variable length, of at most 32 bits.
    fn varint(&mut self) -> Option<usize> {
        let mut number = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = *self.take(1)?.first()?;
            number |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return usize::try_from(number).ok();
            }
        }
        None
    }

    /// A string, null or not, in the compact form or the older one.
    fn string(&mut self, is_compact: bool) -> Option<Option<String>> {
        let len = match is_compact {
            true => self.varint()?.checked_sub(1),
            false => match self.int16()? {
                -1 => None,
                len => Some(usize::try_from(len).ok()?),
            },
        };
        let Some(len) = len else { return Some(None) };
        let text = std::str::from_utf8(self.take(len)?).ok()?;
        Some(Some(text.to_owned()))
    }

    /// How many elements an array has; a null one has none.
    fn count(&mut self, is_compact: bool) -> Option<usize> {
        match is_compact {
            true => Some(self.varint()?.saturating_sub(1)),
            false => Some(usize::try_from(self.int32()?).unwrap_or(0)),
        }
    }

    /// Passes over tagged fields.
    fn tags(&mut self) -> Option<()> {
        for _ in 0..self.varint()? {
            let _tag = self.varint()?;
            let len = self.varint()?;
            self.take(len)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(api: i16, version: i16, client_id: Option<&str>) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(api.to_be_bytes());
        bytes.extend(version.to_be_bytes());
        bytes.extend(7_i32.to_be_bytes());
        bytes.extend(string(client_id));
        bytes
    }

    fn string(text: Option<&str>) -> Vec<u8> {
        let len = text.map_or(-1, |text| i16::try_from(text.len()).unwrap());
        let mut bytes = len.to_be_bytes().to_vec();
        bytes.extend(text.unwrap_or_default().as_bytes());
        bytes
    }

    fn compact(text: &str) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(text.len() + 1).unwrap()];
        bytes.extend(text.as_bytes());
        bytes
    }

    /// Version 7, with records that are not looked at.
    fn produce() -> Vec<u8> {
        let mut bytes = header(0, 7, Some("rdkafka"));
        bytes.extend(string(Some("app-stage-1")));
        bytes.extend((-1_i16).to_be_bytes());
        bytes.extend(30_000_i32.to_be_bytes());
        bytes.extend(1_i32.to_be_bytes());
        bytes.extend(string(Some("orders")));
        bytes.extend(1_i32.to_be_bytes());
        bytes.extend(3_i32.to_be_bytes());
        bytes.extend([9; 40]);
        bytes
    }

    /// Version 10: tagged fields behind the header, lengths in their compact form.
    fn flexible_produce(version: i16) -> Vec<u8> {
        let mut bytes = header(0, version, None);
        bytes.extend([1, 5, 2, 0xaa, 0xbb]); // one tagged field
        bytes.extend(compact("app-stage-1"));
        bytes.extend(1_i16.to_be_bytes());
        bytes.extend(30_000_i32.to_be_bytes());
        bytes.push(2); // one topic
        bytes.extend(compact("orders"));
        bytes.push(2); // one partition
        bytes.extend(300_i32.to_be_bytes());
        bytes.extend([9; 40]);
        bytes
    }

    #[test]
    fn a_produce_request_names_its_client_its_transaction_and_its_partition() {
        let expected = Head {
            api: ApiKey::PRODUCE,
            correlation: 7,
            client_id: Some("rdkafka".to_owned()),
            transactional_id: Some("app-stage-1".to_owned()),
            partition: Some(("orders".to_owned(), 3)),
            asked_for: Vec::new(),
            is_answered: true,
        };
        assert_eq!(Head::of(&produce()), Some(expected.clone()));
        let flexible = Head {
            client_id: None,
            partition: Some(("orders".to_owned(), 300)),
            ..expected
        };
        assert_eq!(Head::of(&flexible_produce(10)), Some(flexible.clone()));
        // Version 13 has a UUID where the name was.
        let by_id = Head {
            partition: None,
            ..flexible
        };
        assert_eq!(Head::of(&flexible_produce(13)), Some(by_id));
    }

    #[test]
    fn a_produce_request_without_acknowledgement_has_no_answer() {
        let mut bytes = header(0, 3, Some("c"));
        bytes.extend(string(None));
        bytes.extend(0_i16.to_be_bytes());
        let head = Head::of(&bytes).unwrap();
        assert!(!head.is_answered);
        assert_eq!(head.transactional_id, None);
        assert_eq!(head.partition, None);
    }

    #[test]
    fn requests_of_a_transaction_name_it() {
        let mut plain = header(26, 1, Some("c"));
        plain.extend(string(Some("mine")));
        let mut flexible = header(28, 3, Some("c"));
        flexible.push(0);
        flexible.extend(compact("mine"));
        for bytes in [plain, flexible] {
            let head = Head::of(&bytes).unwrap();
            assert_eq!(head.transactional_id.as_deref(), Some("mine"), "{head:?}");
        }
        let fetch = Head::of(&header(1, 12, Some("c"))).unwrap();
        assert_eq!(fetch.transactional_id, None);
    }

    /// Version 12 asks by UUID or by name.
    #[test]
    fn a_metadata_request_says_which_topics_it_asks_for() {
        let mut flexible = header(3, 12, Some("c"));
        flexible.push(0); // no tagged fields
        flexible.push(3); // two topics
        for topic in ["orders", "orders-in"] {
            flexible.extend([0; 16]);
            flexible.extend(compact(topic));
            flexible.push(0);
        }
        flexible.extend([0, 0, 0]);
        let mut older = header(3, 4, Some("c"));
        older.extend(2_i32.to_be_bytes());
        older.extend(string(Some("orders")));
        older.extend(string(Some("orders-in")));
        older.push(0);
        for mut bytes in [flexible, older] {
            let asked_for = |bytes: &[u8]| Head::of(bytes).unwrap().asked_for;
            assert_eq!(asked_for(&bytes), ["orders", "orders-in"]);
            let (before, stranger) = (bytes.clone(), stranger_of("orders"));
            put_in_place_of(&mut bytes, &stranger, "orders");
            assert_eq!(asked_for(&bytes), ["orderx", "orders-in"]);
            put_in_place_of(&mut bytes, "orders", &stranger);
            assert_eq!(bytes, before);
        }
        assert_eq!(stranger_of("tax"), "tay");
    }

    /// Cut anywhere, or with lengths that lie: what is there of the header decides, and nothing is read beyond the bytes.
    #[test]
    fn cut_or_damaged_requests_are_read_as_far_as_they_go() {
        let headers = [header(0, 7, Some("rdkafka")), header(0, 10, None)];
        for (whole, header) in [produce(), flexible_produce(10)].into_iter().zip(headers) {
            for len in 0..whole.len() {
                let head = Head::of(&whole[..len]);
                let expected = (len >= header.len()).then_some(ApiKey::PRODUCE);
                assert_eq!(head.map(|head| head.api), expected);
                for place in 0..len {
                    for byte in [0, 1, 0x7f, 0x80, 0xff] {
                        let mut damaged = whole[..len].to_vec();
                        damaged[place] = byte;
                        let _ = Head::of(&damaged);
                    }
                }
            }
        }
        assert_eq!(Head::of(&header(-1, 0, None)), None);
        assert_eq!(Head::of(&[0xff; 64]), None);
    }
}
