// Reads the records of W&B's offline file, run-ID.wandb.
//
// The file begins with seven bytes: ":W&B", 0xBEE1, version 0. Pieces of records follow in blocks of 32 KiB. Each piece
// has a header, CRC-32 (zlib's, over type and payload) uint32, length uint16, type uint8 (1 whole record, 2 first part,
// 3 middle part, 4 last part), all little-endian, and a payload. If fewer than seven bytes are left in a block, they
// are padding. The joined payloads of a record are one protobuf Record (wandb.proto). Source: wandb/wandb,
// wandb/sdk/internal/datastore.py and wandb/proto/wandb_internal.proto.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

namespace wandb {
class Record;
class Item;
}  // namespace wandb

bool begins_like_wandb(std::string_view bytes);

// Called with a record, its size in bytes and the number of bytes that are left. Returns false to stop. If it throws
// Unreadable, the record is counted as bad.
using WandbHandler = std::function<bool(const wandb::Record&, std::size_t size, std::size_t remaining_bytes)>;

// Calls `handler` with each record and returns the number of records. Skips an incomplete last record, because the file
// may still be being written. Records with a wrong checksum are counted in `bad` and skipped.
std::int64_t read_wandb(std::string_view bytes, BadLines& bad, const WandbHandler& handler);

std::string key_of(const wandb::Item& item);  // nested keys joined with dots

}  // namespace moescope
