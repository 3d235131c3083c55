#include "core/files/tensors/torch_file.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/files/tensors/torch_tensors.h"
#include "core/files/tensors/zip_archive.h"
#include "core/files/text/text_escape.h"

namespace moescope {
namespace {

constexpr std::string_view kPickled = "data.pkl";

Pickle pickle_of(const MappedTensors& file, std::string_view bytes) {
  try {
    return read_pickle(bytes);
  } catch (const std::runtime_error& problem) {
    file.fail("its " + std::string(problem.what()));
  }
}

// Returns the folder of the entries of an archive, "NAME/"; "" if they are not in one.
std::string folder_of(const MappedTensors& file, const ZipArchive& archive) {
  std::set<std::string> folders;
  for (const ZipEntry& entry : archive.entries()) {
    folders.insert(entry.name.substr(0, entry.name.find('/') + 1));
    if (folders.size() > 1)
      file.fail("holds two folders, '" + printable(*folders.begin()) + "' and '" + printable(*folders.rbegin()) +
                "', of which either may be meant; torch.save writes one");
  }
  return *folders.begin();
}

// Reads files of PyTorch before 1.6: pickles of a magic number, a version, facts about the machine, and the object;
// then a pickle of the keys of its storages, and for each storage a count of elements in 8 bytes and the elements.
class LegacyReader {
 public:
  explicit LegacyReader(MappedTensors& file)
      : file_(file), text_(file.copied(0, std::min(file.bytes, kMaxPickleBytes))), unread_(text_) {}

  void read() {
    if (const Pickle magic = next(); magic.root->kind != Kind::large || magic.root->text != kMagic)
      file_.fail(
          "is a pickle, but not one of torch.save; torch.save(model.state_dict(), path) writes a file that can be "
          "read");
    next();  // the version is always 1001
    const bool little = is_little(next());
    const Pickle object = next(), keys = next();
    place_storages(object, keys, little);
    const auto find = [&](std::string_view key) {
      const auto found = storages_.find(key);
      return found == storages_.end() ? TorchBytes{{}, nullptr, "lacks its storage, which is not in the file"}
                                      : found->second;
    };
    collect_torch_tensors(object, find, !little, file_);
  }

 private:
  using Kind = PickleValue::Kind;
  static constexpr std::size_t kMaxPickleBytes = std::size_t{64} << 20;
  static constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

  Pickle next() {
    Pickle pickle = pickle_of(file_, unread_);
    unread_.remove_prefix(pickle.bytes);
    return pickle;
  }

  static bool is_little(const Pickle& machine) {
    const auto& items = machine.root->items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (items[i]->text == "little_endian") return items[i + 1]->number != 0;
    return true;
  }

  void place_storages(const Pickle& object, const Pickle& keys, bool little) {
    std::unordered_map<std::string_view, std::string_view> types;  // types of storages by their keys
    for (const PickleValue& value : object.values)
      if (const auto storage = torch_storage(value)) types.emplace(storage->key, storage->type);
    std::size_t at = text_.size() - unread_.size();
    for (const PickleValue* key : keys.root->items) {
      const auto type = types.find(key->text);
      const auto size = type == types.end() ? std::nullopt : torch_type_bytes(type->second);
      if (!size) file_.fail("has a storage '" + printable(std::string(key->text.substr(0, 100))) + "' of unknown type");
      const std::size_t count = read_count(at, little);
      std::size_t bytes = 0;
      at += kCountBytes;
      if (__builtin_mul_overflow(count, *size, &bytes) || bytes > file_.bytes - at)
        file_.fail("ends in its storages (is it truncated?)");
      storages_.emplace(key->text, TorchBytes{{file_.data + at, bytes}, nullptr, {}});
      at += bytes;
    }
  }

  std::size_t read_count(std::size_t at, bool little) const {
    const std::string bytes = file_.copied(at, kCountBytes);
    std::size_t count = 0;
    for (std::size_t i = 0; i < kCountBytes; ++i)
      count = count << 8 | static_cast<unsigned char>(bytes[little ? kCountBytes - 1 - i : i]);
    return count;
  }

  static constexpr std::size_t kCountBytes = 8;
  MappedTensors& file_;
  std::string text_;
  std::string_view unread_;
  std::unordered_map<std::string_view, TorchBytes> storages_;
};

}  // namespace

bool is_torch_archive(const ZipArchive& archive) {
  return std::ranges::any_of(archive.entries(), [](const ZipEntry& entry) {
    return entry.name == kPickled || entry.name.ends_with("/data.pkl");
  });
}

// Recognises protocols 2 to 5.
bool begins_like_pickle(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

void read_torch(MappedTensors& file, ZipArchive& archive) {
  const std::string folder = folder_of(file, archive);
  const ZipEntry* pickled = archive.find(folder + std::string(kPickled));
  if (!pickled) file.fail("is a zip archive without data.pkl, so not one of torch.save");
  const ZipEntry* order = archive.find(folder + "byteorder");
  const std::string endian = order ? archive.text(*order) : "little";
  if (endian != "little" && endian != "big")
    file.fail("its byteorder is '" + printable(endian.substr(0, 40)) + "'; allowed: little, big");
  const std::string text = archive.text(*pickled);
  const Pickle pickle = pickle_of(file, text);
  const auto find = [&](std::string_view key) -> TorchBytes {
    const std::string name = "data/" + std::string(key.substr(0, 100));
    const ZipEntry* entry = archive.find(folder + name);
    if (!entry) return {{}, nullptr, "lacks its bytes: " + printable(name) + " is not in the file"};
    auto stored = archive.stored(*entry);
    if (!stored)
      return {{},
              nullptr,
              "takes, with others, more than " + std::to_string(kMaxUnpackedBytes >> 20) +
                  " MiB unpacked; torch.save stores tensors as they are"};
    return {stored->bytes, std::move(stored->checksum), {}};
  };
  collect_torch_tensors(pickle, find, endian == "big", file);
}

std::shared_ptr<MappedTensors> read_legacy_torch(const std::string& path) {
  auto file = std::make_shared<MappedTensors>(path);
  LegacyReader(*file).read();
  return file;
}

}  // namespace moescope
