// Declarations that every architecture shares (P4_16 specification, appendix on core.p4).
#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,
    NoMatch,
    StackOutOfBounds,
    HeaderTooShort,
    ParserTimeout,
    ParserInvalidArgument
}

match_kind { exact, ternary, lpm }

// The packet as a parser sees it.
extern packet_in {
    void extract<T>(out T hdr);
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    bit<32> length();
}

// The packet as a deparser builds it.
extern packet_out {
    void emit<T>(in T hdr);
}

extern void verify(in bool check, in error toSignal);

extern bool static_assert(bool check);
extern bool static_assert(bool check, string message);

@noWarn("unused")
action NoAction() {}

#endif
