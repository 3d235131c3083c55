// The records of W&B's offline file, run-ID.wandb.
//
// Seven bytes ":W&B", 0xBEE1, version 0; then records in blocks of 32 KiB, each CRC-32 (zlib's, over type and payload)
// uint32, length uint16, type uint8 (1 whole, 2 first, 3 middle, 4 last part), all little-endian; what is left of a
// block below seven bytes is padding. A joined payload is one protobuf Record (wandb.proto). Source: wandb/wandb,
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

// Gets a record, the bytes that it takes and those that are left, and returns false to stop. May throw Unreadable: the
// record is counted as bad.
using WandbHandler = std::function<bool(const wandb::Record&, std::size_t size, std::size_t left)>;

// Returns the number of records. A file that ends within one is still being written: what is whole counts. Records with
// a wrong checksum are counted in `bad` and skipped.
std::int64_t read_wandb(std::string_view bytes, BadLines& bad, const WandbHandler& handler);

std::string key_of(const wandb::Item& item);  // nested keys joined with dots

}  // namespace moescope
