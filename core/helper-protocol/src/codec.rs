//! Messages to bytes and back.

use std::net::IpAddr;

use crate::{
    Answer, KillSwitch, MAX_ADDRESSES, MAX_MESSAGE, MAX_PREFIXES, MAX_QUEUES, MAX_REASON, MessageError, Open, Opened,
    Prefix, Report, Request, VERSION,
};

impl Request {
    /// The message's bytes. Lists are cut at their limits.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Self::Open(open) => {
                out.push(1);
                out.extend_from_slice(&open.mtu.to_be_bytes());
                out.push(open.queues);
                out.push(u8::from(open.local_direct));
                write_prefixes(&mut out, &open.addresses, MAX_ADDRESSES);
                write_prefixes(&mut out, &open.excluded, MAX_PREFIXES);
                match open.resolver {
                    Some(address) => write_address(&mut out, address),
                    None => out.push(0),
                }
            }
            Self::Close => out.push(2),
            Self::Protect => out.push(3),
            Self::ArmKillSwitch(allowed) => {
                out.push(4);
                write_prefixes(&mut out, allowed, MAX_PREFIXES);
            }
            Self::ReleaseKillSwitch => out.push(5),
            Self::Report => out.push(6),
        }
        out
    }

    /// Reads a whole message.
    ///
    /// # Errors
    /// Another version, or bytes that are no message.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(bytes)?;
        let request = match reader.byte()? {
            1 => {
                let mtu = reader.number16()?;
                let queues = reader.byte()?;
                if mtu < 1280 || queues == 0 || queues > MAX_QUEUES {
                    return Err(MessageError::Malformed("a device that can't be"));
                }
                Self::Open(Open {
                    mtu,
                    queues,
                    local_direct: reader.flag()?,
                    addresses: reader.prefixes(MAX_ADDRESSES)?,
                    excluded: reader.prefixes(MAX_PREFIXES)?,
                    resolver: reader.maybe_address()?,
                })
            }
            2 => Self::Close,
            3 => Self::Protect,
            4 => Self::ArmKillSwitch(reader.prefixes(MAX_PREFIXES)?),
            5 => Self::ReleaseKillSwitch,
            6 => Self::Report,
            _ => return Err(MessageError::Malformed("an unknown request")),
        };
        reader.end()?;
        Ok(request)
    }
}

impl Answer {
    /// The message's bytes. A reason is cut at its limit.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Self::Opened(opened) => {
                out.push(1);
                out.extend_from_slice(&opened.index.to_be_bytes());
                out.extend_from_slice(&opened.mtu.to_be_bytes());
                for flag in [opened.checksum, opened.tcp_segmentation, opened.udp_segmentation, opened.names_guarded] {
                    out.push(u8::from(flag));
                }
            }
            Self::Done => out.push(2),
            Self::Report(report) => {
                out.push(3);
                out.push(u8::from(report.open));
                out.push(match report.kill_switch {
                    KillSwitch::Off => 0,
                    KillSwitch::Armed => 1,
                    KillSwitch::Blocking => 2,
                });
            }
            Self::Failed { reason } => {
                out.push(4);
                let mut length = reason.len().min(MAX_REASON);
                while !reason.is_char_boundary(length) {
                    length -= 1;
                }
                out.extend_from_slice(&reason.as_bytes()[..length]);
            }
        }
        out
    }

    /// Reads a whole message.
    ///
    /// # Errors
    /// Another version, or bytes that are no message.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(bytes)?;
        let answer = match reader.byte()? {
            1 => Self::Opened(Opened {
                index: u32::from_be_bytes(reader.array()?),
                mtu: reader.number16()?,
                checksum: reader.flag()?,
                tcp_segmentation: reader.flag()?,
                udp_segmentation: reader.flag()?,
                names_guarded: reader.flag()?,
            }),
            2 => Self::Done,
            3 => Self::Report(Report {
                open: reader.flag()?,
                kill_switch: match reader.byte()? {
                    0 => KillSwitch::Off,
                    1 => KillSwitch::Armed,
                    2 => KillSwitch::Blocking,
                    _ => return Err(MessageError::Malformed("an unknown state")),
                },
            }),
            4 => {
                let bytes = reader.rest(MAX_REASON)?;
                let reason =
                    std::str::from_utf8(bytes).map_err(|_| MessageError::Malformed("a reason that is no text"))?;
                Self::Failed { reason: reason.to_owned() }
            }
            _ => return Err(MessageError::Malformed("an unknown answer")),
        };
        reader.end()?;
        Ok(answer)
    }
}

fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.push(6);
            out.extend_from_slice(&address.octets());
        }
    }
}

fn write_prefixes(out: &mut Vec<u8>, prefixes: &[Prefix], most: usize) {
    let prefixes = &prefixes[..prefixes.len().min(most)];
    let count = u16::try_from(prefixes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&count.to_be_bytes());
    for (address, bits) in prefixes {
        write_address(out, *address);
        out.push(*bits);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, MessageError> {
        if bytes.len() > MAX_MESSAGE {
            return Err(MessageError::Malformed("it is too long"));
        }
        let mut reader = Self(bytes);
        match reader.byte()? {
            VERSION => Ok(reader),
            other => Err(MessageError::Version(other)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(MessageError::Malformed("it ends early"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, MessageError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn number16(&mut self) -> Result<u16, MessageError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn flag(&mut self) -> Result<bool, MessageError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(MessageError::Malformed("a flag that is neither 0 nor 1")),
        }
    }

    fn maybe_address(&mut self) -> Result<Option<IpAddr>, MessageError> {
        match self.byte()? {
            0 => Ok(None),
            4 => Ok(Some(IpAddr::from(self.array::<4>()?))),
            6 => Ok(Some(IpAddr::from(self.array::<16>()?))),
            _ => Err(MessageError::Malformed("an unknown kind of address")),
        }
    }

    fn prefixes(&mut self, most: usize) -> Result<Vec<Prefix>, MessageError> {
        let count = usize::from(self.number16()?);
        if count > most {
            return Err(MessageError::Malformed("too many prefixes"));
        }
        let mut prefixes = Vec::with_capacity(count);
        for _ in 0..count {
            let address = self.maybe_address()?.ok_or(MessageError::Malformed("a prefix without an address"))?;
            let bits = self.byte()?;
            if bits > if address.is_ipv4() { 32 } else { 128 } {
                return Err(MessageError::Malformed("a prefix longer than its address"));
            }
            prefixes.push((address, bits));
        }
        Ok(prefixes)
    }

    fn rest(&mut self, most: usize) -> Result<&'a [u8], MessageError> {
        if self.0.len() > most {
            return Err(MessageError::Malformed("a text that is too long"));
        }
        Ok(std::mem::take(&mut self.0))
    }

    fn end(&self) -> Result<(), MessageError> {
        if self.0.is_empty() { Ok(()) } else { Err(MessageError::Malformed("bytes follow its end")) }
    }
}
