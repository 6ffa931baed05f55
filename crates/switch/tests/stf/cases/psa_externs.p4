// Externs of PSA: counters, registers, hashes, checksums of data, random numbers, digests.

#include "lib/psa_start.p4"

header h_t { bit<8> kind; bit<8> index; bit<32> value; bit<32> result; }
struct headers_t { h_t h; }
struct metadata_t { bool learn; }
struct learned_t { bit<32> value; PortId_t port; }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    Counter<bit<32>, bit<8>>(4, PSA_CounterType_t.PACKETS_AND_BYTES) counts;
    DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) hits;
    Register<bit<32>, bit<8>>(4, 0x1111) cells;
    Register<bit<16>, bit<8>>(4) halves;
    Hash<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) short_crc;
    Hash<bit<32>>(PSA_HashAlgorithm_t.IDENTITY) same;
    Hash<bit<16>>(PSA_HashAlgorithm_t.ONES_COMPLEMENT16) sum;
    Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) parts;
    Checksum<bit<16>>(PSA_HashAlgorithm_t.ONES_COMPLEMENT16) words;
    Random<bit<8>>(7, 9) dice;
    bit<8> rolled;

    action counted() { hits.count(); }
    action silent() {}
    table direct {
        key = { hdr.h.value : exact; }
        actions = { counted; silent; }
        default_action = silent();
        psa_direct_counter = hits;
    }

    apply {
        send_to_port(ostd, (PortId_t) 1);
        switch (hdr.h.kind) {
            0x01: { counts.count(hdr.h.index); }
            0x02: { hdr.h.result = cells.read(hdr.h.index); }
            0x03: { cells.write(hdr.h.index, hdr.h.value); }
            0x04: { hdr.h.result = crc.get_hash({ hdr.h.kind, hdr.h.value }); }
            0x05: { hdr.h.result = crc.get_hash(32w100, { hdr.h.kind, hdr.h.value }, 32w10); }
            // Five bits, with zeros in front.
            0x06: { hdr.h.result = same.get_hash(hdr.h.value[4:0]); }
            0x07: { hdr.h.result = (bit<32>) sum.get_hash(hdr.h); }
            0x08: {
                parts.update(hdr.h.kind);
                parts.update({ hdr.h.value[31:16], hdr.h.value[15:0] });
                hdr.h.result = parts.get();
            }
            0x09: {
                parts.update(hdr.h.value);
                parts.clear();
                parts.update({ hdr.h.kind, hdr.h.value });
                hdr.h.result = parts.get();
            }
            0x0a: {
                words.update(hdr.h.value);
                words.update({ hdr.h.kind, hdr.h.index });
                hdr.h.result = (bit<32>) words.get();
            }
            0x0b: {
                rolled = dice.read();
                hdr.h.result = rolled >= 7 && rolled <= 9 ? 32w1 : 0;
            }
            0x0c: { direct.apply(); }
            0x0d: { meta.learn = true; }
            0x0e: { hdr.h.result = (bit<32>) short_crc.get_hash(hdr.h.value); }
            0x0f: { hdr.h.result = (bit<32>) halves.read(hdr.h.index); }
            0x10: { assert(hdr.h.value == 1); }
        }
    }
}

#define OWN_DEPARSE
control Deparse(packet_out packet, out empty_t clone_i2e_meta, out empty_t resubmit_meta, out empty_t normal_meta,
                inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    Digest<learned_t>() learned;
    apply {
        if (meta.learn) { learned.pack({ hdr.h.value, istd.egress_port }); }
        packet.emit(hdr);
    }
}

#include "lib/psa.p4"
