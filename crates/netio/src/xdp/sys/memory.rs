//! Memory shared by the kernel and this process: chunks for frames, and rings.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::xdp::ring::{Counter, Shared};

/// A mapping, unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<libc::c_void>,
    length: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread. The types below define how its
// contents are accessed.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn anonymous(length: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: an anonymous mapping at an address that the kernel chooses does not affect
        // existing memory.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        Self::of(start, length)
    }

    /// Maps one of the rings of an AF_XDP socket.
    fn of_socket(fd: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a mapping at an address that the kernel chooses does not affect existing memory.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                fd.as_raw_fd(),
                offset,
            )
        };
        Self::of(start, length)
    }

    fn of(start: *mut libc::c_void, length: usize) -> io::Result<Self> {
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// A pointer to a `T` at an offset, which must be within the mapping and aligned.
    fn at<T>(&self, offset: u64) -> io::Result<NonNull<T>> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let end = offset.checked_add(size_of::<T>()).ok_or(io::ErrorKind::InvalidData)?;
        if end > self.length || offset % align_of::<T>() != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // SAFETY: the offset was just found to be within the mapping.
        Ok(unsafe { self.start.byte_add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this range was mapped, and no borrow from it outlives its owner. The kernel keeps
        // the pages that it still needs.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}

/// The right to read and write a chunk of an [`Area`]. Each chunk has exactly one, held here or
/// lent to the kernel.
#[derive(Debug)]
pub(in crate::xdp) struct Chunk {
    area: u32,
    index: usize,
}

/// Memory for frames (a "UMEM"): chunks of one size, each held by this process or lent to the
/// kernel.
#[derive(Debug)]
pub(in crate::xdp) struct Area {
    id: u32,
    mapping: Mapping,
    chunk_size: usize,
    lent: Box<[AtomicBool]>,
}

impl Area {
    /// Allocates `count` chunks of `chunk_size` bytes (a power of two), and returns the right to
    /// each.
    pub(in crate::xdp) fn new(count: usize, chunk_size: usize) -> io::Result<(Self, Vec<Chunk>)> {
        static AREAS: AtomicU32 = AtomicU32::new(0);
        assert!(chunk_size.is_power_of_two(), "the kernel takes only powers of two");
        let id = AREAS.fetch_add(1, Ordering::Relaxed);
        let length = count.checked_mul(chunk_size).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping::anonymous(length)?;
        let lent = (0..count).map(|_| AtomicBool::new(false)).collect();
        let chunks = (0..count).map(|index| Chunk { area: id, index }).collect();
        Ok((Self { id, mapping, chunk_size, lent }, chunks))
    }

    pub(in crate::xdp) fn chunk_size(&self) -> usize {
        self.chunk_size
    }

    pub(super) fn start(&self) -> u64 {
        self.mapping.start.as_ptr() as u64
    }

    pub(super) fn length(&self) -> usize {
        self.mapping.length
    }

    /// The contents of a chunk.
    pub(in crate::xdp) fn bytes<'a>(&'a self, chunk: &'a Chunk) -> &'a [u8] {
        assert_eq!(chunk.area, self.id, "a chunk of another area");
        // SAFETY: the chunk is within the mapping, by its index. No write happens meanwhile: the
        // kernel only writes to chunks that are lent to it, for which no `Chunk` exists, and this
        // process would have to borrow the only `Chunk` mutably.
        unsafe {
            let start = self.mapping.start.cast::<u8>().add(chunk.index * self.chunk_size);
            std::slice::from_raw_parts(start.as_ptr(), self.chunk_size)
        }
    }

    /// The contents of a chunk, for writing.
    pub(in crate::xdp) fn bytes_mut<'a>(&'a self, chunk: &'a mut Chunk) -> &'a mut [u8] {
        assert_eq!(chunk.area, self.id, "a chunk of another area");
        // SAFETY: as in `bytes`. No read happens either, because the only `Chunk` is borrowed
        // mutably.
        unsafe {
            let start = self.mapping.start.cast::<u8>().add(chunk.index * self.chunk_size);
            std::slice::from_raw_parts_mut(start.as_ptr(), self.chunk_size)
        }
    }

    /// Lends a chunk to the kernel. Returns the address that identifies it to the kernel.
    pub(in crate::xdp) fn lend(&self, chunk: Chunk) -> u64 {
        assert_eq!(chunk.area, self.id, "a chunk of another area");
        self.lent[chunk.index].store(true, Ordering::Release);
        (chunk.index * self.chunk_size) as u64
    }

    /// Takes back the chunk that contains an address from the kernel. Returns the chunk and the
    /// address's offset in it, or `None` if that chunk was not lent.
    pub(in crate::xdp) fn take_back(&self, address: u64) -> Option<(Chunk, usize)> {
        let address = usize::try_from(address).ok()?;
        let index = address / self.chunk_size;
        let lent = self.lent.get(index)?.swap(false, Ordering::Acquire);
        lent.then_some((Chunk { area: self.id, index }, address % self.chunk_size))
    }
}

/// One entry of a ring in memory. All access is atomic, so that no behaviour of the other side
/// causes undefined behaviour.
pub(in crate::xdp) trait Cell {
    type Entry: Copy;
    fn get(&self) -> Self::Entry;
    fn set(&self, entry: Self::Entry);
}

/// An entry of the fill and completion rings: the address of a chunk.
impl Cell for AtomicU64 {
    type Entry = u64;

    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    fn set(&self, address: u64) {
        self.store(address, Ordering::Relaxed);
    }
}

/// A frame, or a part of one, in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::xdp) struct Descriptor {
    pub(in crate::xdp) address: u64,
    pub(in crate::xdp) length: u32,
    /// Whether the next descriptor continues the same frame.
    pub(in crate::xdp) continues: bool,
}

/// An entry of the receive and transmit rings, with the layout of the kernel's `struct xdp_desc`.
#[derive(Debug)]
#[repr(C)]
pub(in crate::xdp) struct DescriptorCell {
    address: AtomicU64,
    length: AtomicU32,
    options: AtomicU32,
}

impl Cell for DescriptorCell {
    type Entry = Descriptor;

    fn get(&self) -> Descriptor {
        Descriptor {
            address: self.address.load(Ordering::Relaxed),
            length: self.length.load(Ordering::Relaxed),
            continues: self.options.load(Ordering::Relaxed) & libc::XDP_PKT_CONTD != 0,
        }
    }

    fn set(&self, descriptor: Descriptor) {
        self.address.store(descriptor.address, Ordering::Relaxed);
        self.length.store(descriptor.length, Ordering::Relaxed);
        let options = if descriptor.continues { libc::XDP_PKT_CONTD } else { 0 };
        self.options.store(options, Ordering::Relaxed);
    }
}

/// Offsets of a ring's parts in its mapping, as reported by the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) produced: u64,
    pub(super) consumed: u64,
    pub(super) flags: u64,
    pub(super) entries: u64,
}

/// A ring of entries of type `C`, mapped from a socket.
#[derive(Debug)]
pub(in crate::xdp) struct Ring<C> {
    produced: NonNull<AtomicU32>,
    consumed: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<C>,
    size: u32,
    _mapping: Mapping,
    _cells: PhantomData<C>,
}

// SAFETY: the pointers refer to the mapping, which the ring owns and which belongs to no thread.
// All of its contents are atomic.
unsafe impl<C: Sync> Send for Ring<C> {}

impl<C> Ring<C> {
    /// Maps the ring of `size` entries at `page_offset` of `fd`.
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        offsets: Offsets,
        size: u32,
    ) -> io::Result<Self> {
        assert!(size.is_power_of_two(), "the kernel takes only powers of two");
        let bytes = u64::from(size) * size_of::<C>() as u64;
        let length = usize::try_from(offsets.entries + bytes).map_err(io::Error::other)?;
        let mapping = Mapping::of_socket(fd, page_offset, length)?;
        Ok(Self {
            produced: mapping.at(offsets.produced)?,
            consumed: mapping.at(offsets.consumed)?,
            flags: mapping.at(offsets.flags)?,
            entries: mapping.at(offsets.entries)?,
            size,
            _mapping: mapping,
            _cells: PhantomData,
        })
    }

    /// Whether the kernel must be notified of new entries.
    pub(in crate::xdp) fn needs_wakeup(&self) -> bool {
        // SAFETY: the pointer refers to the mapping, which lives as long as `self`.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn counter(&self, counter: Counter) -> &AtomicU32 {
        let counter = match counter {
            Counter::Produced => self.produced,
            Counter::Consumed => self.consumed,
        };
        // SAFETY: the pointer refers to the mapping, which lives as long as `self`.
        unsafe { counter.as_ref() }
    }

    fn cell(&self, position: u32) -> &C {
        let index = (position & (self.size - 1)) as usize;
        // SAFETY: the mapping contains `size` cells from `entries` on and lives as long as `self`,
        // and the index is less than `size`.
        unsafe { self.entries.add(index).as_ref() }
    }
}

impl<C: Cell> Shared for Ring<C> {
    type Entry = C::Entry;

    fn size(&self) -> u32 {
        self.size
    }

    fn load(&self, counter: Counter) -> u32 {
        self.counter(counter).load(Ordering::Acquire)
    }

    fn store(&self, counter: Counter, value: u32) {
        self.counter(counter).store(value, Ordering::Release);
    }

    fn read(&self, position: u32) -> C::Entry {
        self.cell(position).get()
    }

    fn write(&self, position: u32, entry: C::Entry) {
        self.cell(position).set(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_here_or_with_the_kernel_and_never_twice() {
        let (area, mut chunks) = Area::new(4, 2048).unwrap();
        assert_eq!(area.length(), 4 * 2048);
        let mut third = chunks.remove(2);
        area.bytes_mut(&mut third).fill(7);
        assert!(chunks.iter().all(|chunk| area.bytes(chunk).iter().all(|&byte| byte == 0)));
        let address = area.lend(third);
        assert_eq!(address, 2 * 2048);
        for never_lent in [0, 2 * 2048 - 1, 3 * 2048, 4 * 2048, u64::MAX] {
            assert!(area.take_back(never_lent).is_none(), "{never_lent}");
        }
        let (third, offset) = area.take_back(address + 256).unwrap();
        assert_eq!((offset, area.bytes(&third)[0]), (256, 7));
        assert!(area.take_back(address).is_none(), "given back twice");
    }

    #[test]
    #[should_panic(expected = "a chunk of another area")]
    fn areas_are_not_mixed_up() {
        let (_first, chunks) = Area::new(1, 2048).unwrap();
        let (second, _) = Area::new(1, 2048).unwrap();
        second.bytes(&chunks[0]);
    }

    #[test]
    fn an_offset_beyond_a_mapping_is_rejected() {
        let mapping = Mapping::anonymous(4096).unwrap();
        assert!(mapping.at::<AtomicU64>(4096 - 8).is_ok());
        for bad in [4096 - 4, 4096, 4, u64::MAX, u64::MAX - 7] {
            assert!(mapping.at::<AtomicU64>(bad).is_err(), "{bad}");
        }
    }
}
