#include "core/logs/events/wandb_log.h"

#include <zlib.h>

#include <algorithm>
#include <optional>

#include "core/files/little_endian.h"
#include "core/logs/runs/run_builder.h"
#include "wandb.pb.h"

namespace moescope {

namespace {

constexpr std::string_view kBegin(":W&B\xe1\xbe\0", 7);
constexpr std::size_t kWandbBlock = 32768, kPieceHeader = 7;
constexpr std::size_t kLongestRecord = std::size_t{64} << 20;

enum Part { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

// Reads the records of a file in order.
class Records {
 public:
  explicit Records(std::string_view bytes) : bytes_(bytes), at_(kBegin.size()) {}
  // Returns nullopt at the end, or if the rest of the record is not written yet. `problem` is empty if the record is
  // complete.
  std::optional<std::string> next(std::string& problem);
  std::size_t remaining_bytes() const { return bytes_.size() - std::min(at_, bytes_.size()); }

 private:
  struct Piece {
    int type;
    std::string_view payload;
    bool intact;
  };
  std::optional<Piece> piece();

  std::string_view bytes_;
  std::size_t at_;
};

std::optional<Records::Piece> Records::piece() {
  if (const std::size_t rest_of_block = kWandbBlock - at_ % kWandbBlock; rest_of_block < kPieceHeader)
    at_ += rest_of_block;
  if (at_ + kPieceHeader > bytes_.size()) return std::nullopt;
  const std::string_view header = bytes_.substr(at_, kPieceHeader);
  const std::size_t length = little_endian(header.substr(4, 2)), room = kWandbBlock - at_ % kWandbBlock - kPieceHeader;
  const int type = static_cast<unsigned char>(header[6]);
  // Some systems append zeros to a file before they write to it; these are not a record.
  if (header.find_first_not_of('\0') == std::string_view::npos) {
    at_ += room + kPieceHeader;
    return piece();
  }
  if (length > room || type < kWhole || type > kLast) {  // the next piece is found only in the next block
    at_ += room + kPieceHeader;
    return Piece{type, {}, false};
  }
  if (at_ + kPieceHeader + length > bytes_.size()) return std::nullopt;
  const std::string_view checked = bytes_.substr(at_ + 6, 1 + length);
  const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  at_ += kPieceHeader + length;
  return Piece{type, checked.substr(1), crc == little_endian(header.substr(0, 4))};
}

std::optional<std::string> Records::next(std::string& problem) {
  problem.clear();
  std::string record;
  bool begun = false;
  while (const auto found = piece()) {
    if (!found->intact) problem = "wrong checksum of its bytes";
    const bool first = found->type == kWhole || found->type == kFirst;
    if (problem.empty() && first == begun) problem = "parts of a record are missing";
    if (problem.empty() && record.size() + found->payload.size() > kLongestRecord) problem = "longer than 64 MiB";
    if (!problem.empty()) return record;
    begun = true;
    record += found->payload;
    if (found->type == kWhole || found->type == kLast) return record;
  }
  return std::nullopt;
}

}  // namespace

bool begins_like_wandb(std::string_view bytes) {
  return bytes.starts_with(kBegin);
}

std::string key_of(const wandb::Item& item) {
  if (item.nested_key_size() == 0) return item.key();
  std::string key;
  for (const std::string& label : item.nested_key()) key += (key.empty() ? "" : ".") + label;
  return key;
}

std::int64_t read_wandb(std::string_view bytes, BadLines& bad, const WandbHandler& handler) {
  std::int64_t number = 0;
  Records records(bytes);
  std::string problem;
  while (const auto record = records.next(problem)) {
    ++number;
    try {
      wandb::Record parsed;
      if (problem.empty() && !parsed.ParseFromString(*record)) problem = "no record of W&B";
      if (!problem.empty()) throw Unreadable(problem);
      if (!handler(parsed, record->size(), records.remaining_bytes())) break;
    } catch (const Unreadable& unreadable) {
      bad.add(number, unreadable.what(), is_in_part(unreadable));
    }
  }
  return number;
}

}  // namespace moescope
