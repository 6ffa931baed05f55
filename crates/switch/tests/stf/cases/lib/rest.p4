// What a case does not say itself: controls that do nothing, a deparser that emits all headers, and the
// package. A case defines `headers_t`, `metadata_t`, `Parse` and `IngressImpl` before it includes this, and
// OWN_EGRESS, OWN_VERIFY, OWN_UPDATE or OWN_DEPARSE where it has those too.

#ifndef OWN_VERIFY
control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}
#endif

#ifndef OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {}
}
#endif

#ifndef OWN_UPDATE
control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}
#endif

#ifndef OWN_DEPARSE
control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}
#endif

V1Switch(Parse(), Verify(), IngressImpl(), EgressImpl(), Update(), Deparse()) main;
