#include "stack/record/stream.h"

namespace lyre::record {

size_t Writer::begin(Kind kind, uint16_t version) {
  const size_t header = bytes_.size();
  FieldWriter fields(bytes_);
  fields.number(static_cast<uint16_t>(kind));
  fields.number(version);
  fields.number(uint32_t{0});
  return header;
}

void Writer::end(size_t header) {
  const size_t count = bytes_.size() - header - kHeaderBytes;
  for (size_t i = 0; i < sizeof(uint32_t); ++i) {
    bytes_[header + 4 + i] = static_cast<uint8_t>(count >> (8 * i));
  }
}

std::optional<Header> Reader::look() const {
  if (in_.size() < kHeaderBytes) return std::nullopt;
  FieldReader fields(in_.first(kHeaderBytes), 1);
  Header header;
  uint16_t kind = 0;
  fields.number(kind);
  fields.number(header.version);
  fields.number(header.bytes, 0u, kRecordBytesMax);
  header.kind = static_cast<Kind>(kind);
  if (!fields.is_complete() || header.bytes > in_.size() - kHeaderBytes) return std::nullopt;
  return header;
}

bool Reader::try_skip(uint16_t newest) {
  const std::optional<Header> header = look();
  if (!header || header->version > newest) return false;
  in_ = in_.subspan(kHeaderBytes + header->bytes);
  return true;
}

Kind Reader::next() const {
  const std::optional<Header> header = look();
  return header ? header->kind : Kind::kNone;
}

}  // namespace lyre::record
