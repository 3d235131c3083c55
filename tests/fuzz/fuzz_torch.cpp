// libFuzzer over the reader of what torch.save and pickle.dump write (fuzz_tensor_file.h): whole files, and any other
// input as the pickle of a file of torch.save, which needs no right checksum. How to run: CONTRIBUTING.md.
#include <string_view>

#include "tests/fuzz/fuzz_tensor_file.h"

namespace {

constexpr std::size_t kStorageBytes = 64;

void put_number(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

struct ZipWriter {
  std::string file, directory;
  std::size_t entries = 0;

  void add(std::string_view name, std::string_view bytes) {
    std::string facts;  // not encrypted, stored, without a date, no checksum
    put_number(facts, 0, 8);
    put_number(facts, 0, 4);
    put_number(facts, bytes.size(), 4);
    put_number(facts, bytes.size(), 4);
    put_number(facts, name.size(), 2);
    directory.append("PK\x01\x02").append("\x14\0\x14\0", 4).append(facts).append(12, '\0');
    put_number(directory, file.size(), 4);
    directory.append(name);
    file.append("PK\x03\x04").append("\x14\0", 2).append(facts).append(2, '\0').append(name).append(bytes);
    ++entries;
  }
  std::string finish() {
    const std::size_t first = file.size();
    file.append(directory).append("PK\x05\x06").append(4, '\0');
    put_number(file, entries, 2);
    put_number(file, entries, 2);
    put_number(file, directory.size(), 4);
    put_number(file, first, 4);
    return file.append(2, '\0');
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const bool legacy = input.starts_with("\x80\x02\x8a\x0a");
  if (input.starts_with("PK") || legacy) {
    moescope::open_and_read(data, size);
    return 0;
  }
  if (input.starts_with('\x80')) moescope::open_and_read(data, size);  // a pickle alone: NumPy arrays, counts by expert
  ZipWriter zip;
  zip.add("a/data.pkl", input);
  for (const char* storage : {"a/data/0", "a/data/1", "a/data/2"}) zip.add(storage, std::string(kStorageBytes, '\x11'));
  const std::string file = zip.finish();
  moescope::open_and_read(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  return 0;
}
