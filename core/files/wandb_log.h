// W&B's offline file, run-ID.wandb: a run's settings and what it logged, step by step.
//
// Seven bytes ":W&B", 0xBEE1, version 0; then records in blocks of 32 KiB, each CRC-32 (zlib's, over type and payload)
// uint32, length uint16, type uint8 (1 whole, 2 first, 3 middle, 4 last part), all little-endian; what is left of a
// block below seven bytes is padding. A joined payload is one protobuf Record (wandb.proto). Source: wandb/wandb,
// wandb/sdk/internal/datastore.py and wandb/proto/wandb_internal.proto.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/telemetry/logs/import.h"

namespace moescope {

struct WandbLog {
  std::string run_id, name;
  std::map<std::string, std::string> config;  // JSON by key
  // One row a call of log(): JSON by key, nested keys joined with dots; "_step", "_runtime", "_timestamp" among them.
  std::vector<std::map<std::string, std::string>> history;
  std::int64_t records = 0;
};

bool begins_like_wandb(std::string_view bytes);

// A file that ends within a record is still being written: what is whole counts. Records with a wrong checksum are
// counted in `bad` and skipped. `progress` gets the bytes that are left and returns false to stop.
WandbLog read_wandb(std::string_view bytes, BadLines& bad, const std::function<bool(std::size_t)>& progress = {});

}  // namespace moescope
