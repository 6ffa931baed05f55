//! ESA.

use super::{Cell, Model, Out, Part, add, is_marked, key, word, write};
use crate::frames::{
    ABSENT, BITMAP, COLLISION, CONGESTED, EPOCH, GRADIENT, MARKED, OVERFLOW, PARAMETER, RACK,
    REMINDER, RESEND, SEQUENCE, internet_checksum,
};
use crate::lab::Outcome::*;
use crate::target::ALWAYS;

impl Model {
    pub(super) fn esa(&mut self, part: Part, port: u16, frame: Vec<u8>) -> Out {
        let own_flags = frame[44] & (RESEND | COLLISION | OVERFLOW);
        match frame[43] {
            GRADIENT => self.esa_gradient(part, port, frame),
            PARAMETER if own_flags & RESEND == 0 => {
                let (task, place, _) = key(&frame);
                if self.cells.get(&place).is_some_and(|cell| cell.task == task) {
                    self.cells.remove(&place);
                }
                self.count(part.slot, Distributed, frame.len());
                self.multicast(part.group, port, &frame)
            }
            REMINDER if own_flags == 0 && word(&frame, BITMAP) != 0 => {
                self.reminder(part, port, frame)
            }
            ABSENT if own_flags == 0 && word(&frame, BITMAP) != 0 => {
                self.forward(part.slot, Answered, port, frame)
            }
            _ => self.gone(part.slot, Malformed, &frame),
        }
    }

    fn esa_gradient(&mut self, part: Part, port: u16, frame: Vec<u8>) -> Out {
        let (bitmap, priority) = (word(&frame, BITMAP), frame[45]);
        let own = bitmap != 0 && bitmap & part.unit == bitmap;
        let many = part.unit.count_ones() > 1;
        match frame[44] & (RESEND | COLLISION | OVERFLOW) {
            0 if own && bitmap == part.unit && priority > 0 => {
                if part.unit != part.members {
                    self.contribution(part, port, frame)
                } else if part.group == 0 {
                    self.forward(part.slot, Bypassed, port, frame)
                } else {
                    self.count(part.slot, Completed, frame.len());
                    self.announce(part, port, frame)
                }
            }
            COLLISION if own && (priority > 0 || many) => {
                self.forward(part.slot, Bypassed, port, frame)
            }
            flags if flags & RESEND == 0 && flags & OVERFLOW != 0 && own && priority > 0 => {
                self.forward(part.slot, Bypassed, port, frame)
            }
            RESEND if own && many => self.forward(part.slot, Answered, port, frame),
            _ => self.gone(part.slot, Malformed, &frame),
        }
    }

    fn contribution(&mut self, part: Part, port: u16, mut frame: Vec<u8>) -> Out {
        let (task, place, bitmap) = key(&frame);
        let new = Cell {
            task,
            bitmap,
            sums: self.values(&frame),
            marked: is_marked(&frame),
            priority: frame[45],
        };
        let always = self.build.preemption == ALWAYS;
        let Some(cell) = self.cells.get_mut(&place) else {
            self.cells.insert(place, new);
            return self.gone(part.slot, Absorbed, &frame);
        };
        if cell.task != task {
            if always || new.priority > cell.priority {
                let old = std::mem::replace(cell, new);
                return self.evict(part, port, frame, &old);
            }
            cell.priority = match self.build.linear {
                true => cell.priority / 2,
                false => cell.priority.saturating_sub(6),
            };
            frame[44] |= COLLISION | if new.marked { MARKED } else { 0 };
            return self.forward(part.slot, Collided, port, frame);
        }
        let twice = cell.bitmap & bitmap != 0;
        // Only differs from the old value if units overlap, which no controller writes.
        cell.bitmap |= bitmap;
        if twice {
            return self.gone(part.slot, Duplicate, &frame);
        }
        add(&mut cell.sums, &new.sums);
        cell.marked |= new.marked;
        cell.priority = cell.priority.max(new.priority);
        if cell.bitmap != part.members {
            return self.gone(part.slot, Added, &frame);
        }
        let cell = self.cells.remove(&place).expect("just seen");
        write(&mut frame, part.upward, &cell.sums, cell.marked);
        frame[RACK] = 0;
        frame[45] = cell.priority;
        if part.group == 0 {
            return self.forward(part.slot, Completed, port, frame);
        }
        self.count(part.slot, Completed, frame.len());
        self.announce(part, port, frame)
    }

    /// The packet leaves as the partial sum of the previous task.
    fn evict(&mut self, part: Part, port: u16, mut frame: Vec<u8>, old: &Cell) -> Out {
        frame[44] = COLLISION;
        frame[45] = 0;
        frame[EPOCH..SEQUENCE].copy_from_slice(&old.task.0.to_be_bytes());
        frame[SEQUENCE..BITMAP].copy_from_slice(&old.task.1.to_be_bytes());
        write(&mut frame, old.bitmap, &old.sums, old.marked);
        if frame[15] & 3 == CONGESTED {
            frame[15] -= 1;
        }
        let Some((job, rack, mac, ip)) = self.servers.get(&old.task.0).copied() else {
            return self.gone(part.slot, Preempted, &frame);
        };
        let count = self.evictions.entry(old.task.0).or_default();
        count.packets += 1;
        count.bytes += frame.len() as i64;
        frame[46..48].copy_from_slice(&job.to_be_bytes());
        frame[RACK] = rack;
        frame[..6].copy_from_slice(&mac.to_be_bytes()[2..]);
        frame[30..34].copy_from_slice(&ip.to_be_bytes());
        checksum(&mut frame);
        self.forward(part.slot, Preempted, port, frame)
    }

    fn reminder(&mut self, part: Part, port: u16, mut frame: Vec<u8>) -> Out {
        let (task, place, bitmap) = key(&frame);
        if !part.reminded || bitmap != part.members {
            return self.forward(part.slot, Bypassed, port, frame);
        }
        let marked = is_marked(&frame);
        let held = self.cells.get(&place).is_some_and(|cell| cell.task == task);
        let outcome = if held {
            let cell = self.cells.remove(&place).expect("just seen");
            frame[43] = GRADIENT;
            frame[44] |= RESEND;
            write(&mut frame, cell.bitmap, &cell.sums, marked | cell.marked);
            Reminded
        } else {
            frame[43] = ABSENT;
            frame[44] |= if marked { MARKED } else { 0 };
            Absent
        };
        let (to, from) = frame[..12].split_at_mut(6);
        to.swap_with_slice(from);
        let (from, to) = frame[26..34].split_at_mut(4);
        from.swap_with_slice(to);
        self.forward(part.slot, outcome, port, frame)
    }

    /// The result, to all workers.
    fn announce(&self, part: Part, port: u16, mut frame: Vec<u8>) -> Out {
        let job = [frame[46], frame[47]];
        let marked = is_marked(&frame);
        frame[43] = PARAMETER;
        frame[44] = if marked { MARKED } else { 0 };
        frame[45] = 0;
        frame[..6].copy_from_slice(&[0x01, 0x00, 0x5e, 0x54, job[0], job[1]]);
        frame[30..34].copy_from_slice(&[0xef, 0x54, job[0], job[1]]);
        checksum(&mut frame);
        self.multicast(part.group, port, &frame)
    }
}

fn checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let checksum = internet_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}
