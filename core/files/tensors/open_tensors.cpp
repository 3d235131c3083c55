#include "core/files/tensors/open_tensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/tensors/code_scales.h"
#include "core/files/tensors/npy.h"
#include "core/files/tensors/safetensors.h"
#include "core/files/tensors/torch_file.h"
#include "core/files/tensors/zip_archive.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFirstBytes = 16;
constexpr std::uint64_t kLargestIndex = std::uint64_t{64} << 20, kLargestConfig = std::uint64_t{1} << 20;

std::shared_ptr<MappedTensors> read_zip(const std::string& path, std::optional<DType> bytes_are) {
  auto file = std::make_shared<MappedTensors>(path);
  ZipArchive archive(*file);
  if (is_torch_archive(archive)) {
    read_torch(*file, archive);
  } else {
    const auto is_array = [](const ZipEntry& entry) { return entry.name.ends_with(".npy"); };
    if (std::ranges::none_of(archive.entries(), is_array))
      file->fail("is a zip archive that neither torch.save nor numpy.savez wrote: unpack it, and open the files in it");
    read_npz(*file, archive, bytes_are);
    file->index_names();
  }
  return file;
}

std::shared_ptr<MappedTensors> read_file_of_tensors(const std::string& path, std::optional<DType> bytes_are) {
  std::string bytes(kFirstBytes, '\0');
  bytes.resize(InputFile(path).read(bytes.data(), bytes.size()));
  if (begins_like_npy(bytes)) {
    auto file = read_npy(path, bytes_are);
    file->index_names();
    return file;
  }
  if (path.ends_with(".distcp")) refuse(path, unread_form(path));  // archives, one by one
  if (begins_like_zip(bytes)) return read_zip(path, bytes_are);
  // A file of safetensors also begins like a pickle if its header has 128 + 256 n bytes, n = 2 to 5 modulo 256, but an
  // opening brace follows this length.
  const bool may_be_safetensors = bytes.size() > 8 && bytes[8] == '{';
  if (begins_like_pickle(bytes) && !may_be_safetensors) return read_legacy_torch(path);
  if (!path.ends_with(".safetensors") && !may_be_safetensors) {
    std::string problem = encoding_problem(bytes);
    if (problem.empty()) problem = unread_form(path);
    refuse(path, problem.empty() ? "begins like no file of tensors: safetensors, .npy, .npz or torch.save" : problem);
  }
  return read_safetensors(path);
}

// The file of each tensor, as an index states it.
std::map<std::string, std::string> files_of_index(const std::string& path) {
  const nlohmann::json index = parse_json(read_file(path, kLargestIndex, "index of a checkpoint"), path);
  const auto map = index.find("weight_map");
  if (!index.is_object() || map == index.end() || !map->is_object())
    refuse(path, "has no object 'weight_map', which says in which file each tensor is");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
      refuse(path, "'weight_map' of '" + printable(tensor) + "' is not the name of a file in the index's folder");
    files.emplace(tensor, name);
  }
  return files;
}

struct FolderFiles {
  std::vector<std::string> indices, tensors;  // names of files
  bool other_files = false, config = false;   // other kinds of files exist; config.json exists
};

FolderFiles files_of_checkpoint(const fs::path& folder) {
  FolderFiles found;
  for (const std::string& name : names_in(folder)) {
    if (is_checkpoint_index(name)) found.indices.push_back(name);
    if (name.ends_with(".safetensors"))
      found.tensors.push_back(name);
    else
      found.other_files = true;
    found.config |= name == "config.json";
  }
  return found;
}

std::shared_ptr<MappedTensors> read_shards(const std::string& path, const fs::path& folder,
                                           const std::vector<std::string>& names, std::optional<DType> bytes_are) {
  auto all = std::make_shared<MappedTensors>();
  all->path = path;
  for (const std::string& name : names) {
    if (!fs::exists(folder / name)) {
      all->skip(name, "is a missing file of the checkpoint");
      continue;
    }
    require_inside(folder.empty() ? "." : folder, folder / name);
    const auto shard = read_file_of_tensors((folder / name).string(), bytes_are);
    for (TensorView& tensor : shard->tensors) all->add(std::move(tensor));
    for (SkippedEntry& entry : shard->skipped) all->skip(std::move(entry.name), std::move(entry.reason));
    shard->tensors.clear();
    shard->by_name.clear();
    all->shards.push_back(shard);
  }
  if (all->shards.empty()) all->fail("none of the files of this checkpoint exists");
  all->index_names();
  return all;
}

// Skips the tensors of an index that the file which it names does not hold.
void compare_with_index(MappedTensors& all, const std::map<std::string, std::string>& files) {
  std::map<std::string, const MappedTensors*> shards;
  for (const auto& shard : all.shards) shards[fs::path(shard->path).filename().string()] = shard.get();
  for (const auto& [name, file] : files) {
    const auto shard = shards.find(file);
    if (shard == shards.end() || !file.ends_with(".safetensors")) continue;  // a missing file, or one of torch.save
    const auto place = all.by_name.find(name);
    const std::byte* data = place == all.by_name.end() ? nullptr : all.tensors[place->second].bytes.data();
    const std::byte* begin = shard->second->data;
    const bool empty = data && all.tensors[place->second].bytes.empty();
    if (!empty && !(data && !std::less<>()(data, begin) && std::less<>()(data, begin + shard->second->bytes)))
      all.skip(name, "is not in '" + printable(file) + "', where the index says that it is");
  }
}

std::shared_ptr<MappedTensors> read_index(const std::string& path, std::optional<DType> bytes_are) {
  const std::map<std::string, std::string> files = files_of_index(path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : files) names.insert(file);
  auto all = read_shards(path, fs::path(path).parent_path(), {names.begin(), names.end()}, bytes_are);
  compare_with_index(*all, files);
  return all;
}

std::shared_ptr<MappedTensors> read_folder(const std::string& path, std::optional<DType> bytes_are) {
  const FolderFiles found = files_of_checkpoint(path);
  if (found.indices.size() > 1)
    refuse(path, fmt::format("holds {} indices of checkpoints, '{}' and '{}'; open the one that is meant",
                             found.indices.size(), printable(found.indices[0]), printable(found.indices[1])));
  if (!found.indices.empty()) {
    const fs::path index = fs::path(path) / found.indices.front();
    require_inside(path, index);
    return read_index(index.string(), bytes_are);
  }
  if (found.tensors.empty()) {
    const std::string form = unread_form(path);
    refuse(path, form.empty() ? "is a folder without .safetensors in it" : form);
  }
  return read_shards(path, path, found.tensors, bytes_are);
}

// Returns the tile of a group of compressed-tensors' config_groups; nullopt if it has none.
std::optional<ScaleTile> tile_of_group(const nlohmann::json& group) {
  const auto weights = group.is_object() ? group.find("weights") : group.end();
  if (weights == group.end() || !weights->is_object() || weights->value("num_bits", nlohmann::json()) != 8)
    return std::nullopt;
  if (const auto block = weights->find("block_structure"); block != weights->end()) return scale_tile(*block);
  const auto along_row = weights->find("group_size");
  if (along_row == weights->end()) return std::nullopt;
  return scale_tile(nlohmann::json::array({1U, *along_row}));
}

// Returns the tile of the scales that config.json states; DeepSeek's tile if it states none. Throws std::runtime_error
// if weight_block_size is not the size of a tile.
ScaleTile tile_in(const nlohmann::json& config, const std::string& path) {
  if (!config.is_object()) return {};
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto stated = config.find(key);
    if (stated == config.end() || !stated->is_object()) continue;
    if (const auto sizes = stated->find("weight_block_size"); sizes != stated->end() && !sizes->is_null()) {
      if (const auto tile = scale_tile(*sizes)) return *tile;
      refuse(path, std::string("'") + key + ".weight_block_size' is " + printable(sizes->dump(-1, ' ', true)) +
                       "; allowed: two whole numbers above 0");
    }
    const auto groups = stated->find("config_groups");
    if (groups == stated->end() || !groups->is_object()) continue;
    for (const auto& [name, group] : groups->items())
      if (const auto tile = tile_of_group(group)) return *tile;
  }
  return {};
}

ScaleTile tile_beside(const fs::path& path) {
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path(), config = folder / "config.json";
  std::error_code error;
  if (!fs::is_regular_file(config, error)) return {};
  require_inside(folder.empty() ? "." : folder, config);
  nlohmann::json json;
  try {
    json = parse_json(read_file(config.string(), kLargestConfig, "config.json"));
  } catch (const std::exception&) {  // a config.json of another program
    return {};
  }
  return tile_in(json, config.string());
}

}  // namespace

bool begins_like_npy(std::string_view bytes) {
  return bytes.starts_with("\x93NUMPY");
}

bool begins_like_zip(std::string_view bytes) {
  return bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06");  // the second: an archive without entries
}

bool is_checkpoint_index(const std::string& path) {
  return path.ends_with(".safetensors.index.json") || path.ends_with(".bin.index.json");
}

bool index_names(const std::string& index, const std::string& file) {
  return std::ranges::any_of(files_of_index(index), [&](const auto& entry) { return entry.second == file; });
}

bool is_checkpoint_folder(const std::string& path) {
  const FolderFiles found = files_of_checkpoint(path);
  return !found.indices.empty() || (!found.tensors.empty() && (found.config || !found.other_files));
}

TensorFile open_tensors(const std::string& path, std::optional<DType> bytes_are) {
  const auto read = [&] {
    std::error_code error;
    if (fs::is_directory(path, error)) return read_folder(path, bytes_are);
    return is_checkpoint_index(path) ? read_index(path, bytes_are) : read_file_of_tensors(path, bytes_are);
  };
  const auto file = read();
  join_scales(*file, tile_beside(path));
  return TensorFile(file);
}

}  // namespace moescope
