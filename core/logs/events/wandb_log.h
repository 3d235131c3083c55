// Records of W&B's offline file, run-ID.wandb.
//
// Seven bytes ":W&B", 0xBEE1, version 0; then records in blocks of 32 KiB. Each record has CRC-32 (zlib's, over type
// and payload) uint32, length uint16, type uint8 (1 whole, 2 first, 3 middle, 4 last part), all little-endian; fewer
// than seven bytes left in a block are padding. The joined payload is one protobuf Record (wandb.proto). Source:
// wandb/wandb, wandb/sdk/internal/datastore.py and wandb/proto/wandb_internal.proto.
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

// Called with a record, its size in bytes and the bytes that are left; returns false to stop. If it throws Unreadable,
// the record is counted as bad.
using WandbHandler = std::function<bool(const wandb::Record&, std::size_t size, std::size_t left)>;

// Returns the number of records. A file that ends within a record is still being written: complete records are read.
// Records with a wrong checksum are counted in `bad` and skipped.
std::int64_t read_wandb(std::string_view bytes, BadLines& bad, const WandbHandler& handler);

std::string key_of(const wandb::Item& item);  // nested keys joined with dots

}  // namespace moescope
