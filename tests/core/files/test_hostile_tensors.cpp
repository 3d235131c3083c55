// Files of tensors that are damaged or made to harm: they are refused with a message, within limits of memory.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/files/tensors/npy.h"
#include "core/files/tensors/open_tensors.h"
#include "tests/support/peak_memory.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

constexpr std::size_t kMemoryAllowed = std::size_t{700} << 20;  // twice the limit of what is kept, and the file

std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

struct Entry {
  std::string name, bytes;
  bool deflated = false;
  int flag = 0;
};

std::string deflate(const std::string& bytes) {
  std::string packed(::compressBound(bytes.size()), '\0');
  uLongf size = packed.size();
  ::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
              bytes.size(), 1);
  return packed.substr(2, size - 6);  // without zlib's header and checksum
}

std::string zip(const std::vector<Entry>& entries) {
  std::string file, directory;
  for (const Entry& entry : entries) {
    const std::string stored = entry.deflated ? deflate(entry.bytes) : entry.bytes;
    const auto crc =
        ::crc32(0, reinterpret_cast<const Bytef*>(entry.bytes.data()), static_cast<uInt>(entry.bytes.size()));
    const std::string facts = number(static_cast<unsigned>(entry.flag), 2) + number(entry.deflated ? 8 : 0, 2) +
                              number(0, 4) + number(crc, 4) + number(stored.size(), 4) + number(entry.bytes.size(), 4) +
                              number(entry.name.size(), 2);
    directory += "PK\x01\x02" + number(20, 2) + number(20, 2) + facts + std::string(12, '\0') + number(file.size(), 4) +
                 entry.name;
    file += "PK\x03\x04" + number(20, 2) + facts + number(0, 2) + entry.name + stored;
  }
  return file + directory + "PK\x05\x06" + number(0, 4) + number(entries.size(), 2) + number(entries.size(), 2) +
         number(directory.size(), 4) + number(file.size(), 4) + number(0, 2);
}

std::string text(const std::string& words) {
  return 'X' + number(words.size(), 4) + words;
}

// Returns the pickled call that makes a tensor from a storage of four floats; `shape` and `strides` are pickled tuples.
std::string tensor(const std::string& shape, const std::string& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text("0") +
         text("cpu") + "K\x04tQ" + std::string("K\0", 2) + shape + strides + "\x89}tR";
}
std::string plain_tensor() {
  return tensor("K\x04\x85", "K\x01\x85");
}

std::string torch_zip(const std::string& pickled) {
  return zip({{"a/data.pkl", "\x80\x02" + pickled + "."}, {"a/data/0", std::string(16, '\0')}});
}

class HostileTensors : public testing::Test {
 protected:
  ~HostileTensors() override { std::filesystem::remove(path_); }
  std::string path_ = (std::filesystem::temp_directory_path() / "moescope_hostile_tensors").string();

  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }
  // Returns the reason for which a file of these bytes is refused.
  std::string refused(const std::string& bytes) const {
    put(bytes);
    try {
      const TensorFile file = open_tensors(path_);
      for (const TensorView& tensor : file.tensors()) (void)tensor.floats();
    } catch (const std::runtime_error& problem) {
      return problem.what();
    }
    return "opened";
  }
  // Returns the reason why a file of these bytes is refused, or its first entry skipped, within limits of memory.
  std::string refused_in_bounds(const std::string& bytes) const {
    put(bytes);
    std::string message = "opened";
    const std::size_t grown = peak_growth([&] {
      try {
        const TensorFile file = open_tensors(path_);
        if (!file.skipped().empty()) message = file.skipped().front().reason;
      } catch (const std::runtime_error& problem) {
        message = problem.what();
      }
    });
    EXPECT_LT(grown, kMemoryAllowed) << message;
    return message;
  }
  static std::string bytes_of(const std::string& name) {
    std::ifstream file(MOESCOPE_TEST_DATA "/data/tensors/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(HostileTensors, HelperFileIsReadable) {
  EXPECT_EQ(refused(torch_zip(plain_tensor())), "opened");
  EXPECT_EQ(open_tensors(path_).tensors().size(), 1u);
}

TEST_F(HostileTensors, AWrongChecksumIsRefusedBeforeAValueIsUsed) {
  std::string bytes = torch_zip(plain_tensor());
  bytes[bytes.find("a/data/0") + 8 + 5] ^= 1;  // in the data, after the local name
  const std::string message = refused(bytes);
  EXPECT_TRUE(says(message, "zip entry 'a/data/0'") && says(message, "checksum")) << message;
  std::vector<std::byte> copied(16);
  EXPECT_THROW(open_tensors(path_).tensors()[0].copy_bytes(copied.data()), std::runtime_error);
  EXPECT_THROW((void)open_tensors(path_).tensors()[0].floats(0, 1), std::runtime_error);
  bytes = torch_zip(plain_tensor());
  bytes[bytes.find("FloatStorage")] ^= 1;
  EXPECT_TRUE(says(refused(bytes), "data.pkl': its checksum"));
  bytes = bytes_of("packed.npz");
  bytes[bytes.find("a.npy") + 200] ^= 1;
  EXPECT_TRUE(says(refused(bytes), "is damaged")) << refused(bytes);
}

TEST_F(HostileTensors, ArchivesThatMayMeanTwoThingsAreRefused) {
  const std::string pickled = "\x80\x02" + plain_tensor() + ".", data(16, '\0');
  EXPECT_TRUE(
      says(refused(zip({{"a/data.pkl", pickled}, {"a/data/0", data}, {"b/data.pkl", pickled}})), "two folders"));
  EXPECT_TRUE(says(refused(zip({{"a/data.pkl", pickled}, {"a/data/0", data}, {"a/data/0", data}})), "there twice"));
  EXPECT_TRUE(says(refused(zip({{"a/data.pkl", pickled}, {"a/data/0", data, false, 1}})), "is encrypted"));
  EXPECT_TRUE(says(refused(zip({{"a/notes.txt", "x"}})), "unpack it"));
  EXPECT_NE(refused(zip({})), "opened");
}

TEST_F(HostileTensors, CompressedEntriesAreRead) {
  const std::string pickled = "\x80\x02" + plain_tensor() + ".";
  EXPECT_EQ(refused(zip({{"a/data.pkl", pickled, true}, {"a/data/0", std::string(16, '\0'), true}})), "opened");
  EXPECT_EQ(open_tensors(path_).tensors()[0].floats(), std::vector<float>(4));
}

TEST_F(HostileTensors, ManyPlacesOfATensorUnderALongName) {
  std::string places;
  for (int i = 0; i < 200'000; ++i) places += std::string("h\0", 2);
  const std::string message = refused_in_bounds(
      torch_zip("}" + text(std::string(100'000, 'k')) + "](" + plain_tensor() + std::string("q\0", 2) + places + "es"));
  EXPECT_TRUE(says(message, "256 MiB")) << message;
  const std::string short_name =
      refused_in_bounds(torch_zip("}" + text("k") + "](" + plain_tensor() + std::string("q\0", 2) + places + "es"));
  EXPECT_TRUE(says(short_name, "one tensor or object in more than 10000 places")) << short_name;
}

TEST_F(HostileTensors, NestedDeeply) {
  const std::string lists(250'000, ']'), ends(250'000, 'a');
  EXPECT_TRUE(says(refused_in_bounds(torch_zip(lists + plain_tensor() + ends)), "nested more than 64 deep"));
  std::string doubled = plain_tensor() + std::string("q\0", 2);  // each list holds the previous one twice: 2^200 places
  for (int i = 0; i < 200; ++i)
    doubled +=
        "\x85"
        "2\x86";
  const std::string message = refused_in_bounds(torch_zip(doubled));
  EXPECT_TRUE(says(message, "holds much that is nested more than 64 deep")) << message;
  std::string objects;  // each has an attribute that is an object
  for (int i = 0; i < 50'000; ++i) objects += "cm\nC\n)\x81";
  objects += plain_tensor() + std::string(50'000, 'b');
  EXPECT_TRUE(says(refused_in_bounds(torch_zip(objects)), "nested more than 64 deep"));
  std::string wrapped;
  for (int i = 0; i < 20'000; ++i) wrapped += "ctorch._utils\n_rebuild_parameter\n";
  wrapped += plain_tensor();
  for (int i = 0; i < 20'000; ++i) wrapped += "\x85R";
  EXPECT_TRUE(says(refused_in_bounds(torch_zip(wrapped)), "nested more than 64 deep"));
}

TEST_F(HostileTensors, ShapesOfAMillionDimensions) {
  std::string ones;
  for (int i = 0; i < 1'000'000; ++i) ones += "K\x01";
  const std::string tuple = "(" + ones + "t";
  EXPECT_TRUE(says(refused_in_bounds(torch_zip(tensor(tuple, tuple))), "dimensions; allowed: at most 64"));
  std::string sizes = "1";
  for (int i = 0; i < 1'000'000; ++i) sizes += ",1";
  const std::string header = R"({"t":{"dtype":"U8","shape":[)" + sizes + R"(],"data_offsets":[0,1]}})";
  EXPECT_TRUE(says(refused_in_bounds(number(header.size(), 8) + header + "x"), "dimensions; allowed: at most 64"));
  const std::string npy = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + sizes.substr(0, 100'000) + "), }";
  EXPECT_TRUE(says(refused_in_bounds("\x93NUMPY\x02" + std::string(1, '\0') + number(npy.size(), 4) + npy + "x"),
                   "more than 64 dimensions"));
}

TEST_F(HostileTensors, ShapesThatOverflowOrRepeatWithoutEnd) {
  const std::string largest = "\x8a\x08" + number(0x7FFFFFFFFFFFFFFF, 8);
  const std::string zeros("K\0K\0\x86", 5);
  EXPECT_TRUE(says(refused_in_bounds(torch_zip(tensor(largest + largest + "\x86", zeros))), "does not fit"));
  EXPECT_TRUE(says(refused_in_bounds(torch_zip(tensor(largest + "K\x02\x86", zeros))), "repeats its 4 stored values"));
  EXPECT_TRUE(says(refused_in_bounds(torch_zip(tensor("J" + number(1 << 30, 4) + "K\x02\x86", zeros))),
                   "repeats its 4 stored values in 2147483648 places"));
  EXPECT_TRUE(says(refused_in_bounds(torch_zip(tensor("K\x04\x85", "K\x02\x85"))), "does not fit"));
}

TEST_F(HostileTensors, PicklesAndArchivesThatUnpackToMuch) {
  const std::string zeros(std::size_t{300} << 20, ')');
  EXPECT_TRUE(says(refused_in_bounds(zip({{"a/data.pkl", zeros, true}})), "256 MiB"));
  EXPECT_TRUE(says(refused_in_bounds(torch_zip(std::string(4'000'000, ')'))), "pickle takes more than 256 MiB"));
  EXPECT_TRUE(says(refused_in_bounds(torch_zip("(" + std::string(20'000'000, 'N'))), "256 MiB"));
  const std::string array = "\x93NUMPY\x01" + std::string("\0\x76\0", 3);
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(140 << 20) + ",), }";
  header.resize(118, ' ');
  const std::string values = array + header + std::string(std::size_t{140} << 20, '\0');
  EXPECT_TRUE(says(refused_in_bounds(zip({{"a.npy", values, true}, {"b.npy", values, true}})), "numpy.savez stores"));
}

TEST_F(HostileTensors, HeadersOfSafetensorsThatTakeMuchMemory) {
  std::string list = R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":[0)";
  for (int i = 0; i < 3'000'000; ++i) list += ",0";
  list += "]}}";
  EXPECT_TRUE(says(refused_in_bounds(number(list.size(), 8) + list + "x"), "takes more than 64 MiB"));
  MappedTensors tensors;
  tensors.path = "many.safetensors";
  const auto add_many = [&] {
    for (int i = 0; i < 300; ++i) tensors.add({std::string(std::size_t{1} << 20, 'n'), DType::u8, {0}, {}});
  };
  EXPECT_THROW(add_many(), std::runtime_error);
  EXPECT_EQ(tensors.tensors.size(), 127u);  // every name is kept twice
}

TEST_F(HostileTensors, ManyArraysOfAnArchiveTakeTimeInProportion) {
  std::vector<Entry> entries;
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
  header.resize(118, ' ');
  const std::string array = "\x93NUMPY\x01" + std::string("\0\x76\0", 3) + header + "x";
  for (int i = 0; i < 60'000; ++i) entries.push_back({std::to_string(i) + ".npy", array, true});
  put(zip(entries));
  EXPECT_EQ(open_tensors(path_).tensors().size(), 60'000u);  // seconds, not minutes
}

// Returns an array file with four bytes of values.
std::string npy(const std::string& header) {
  return "\x93NUMPY\x01" + std::string(1, '\0') + number(header.size(), 2) + header + "xxxx";
}

TEST_F(HostileTensors, ArraysWithoutATypeWaitForItAndOthersAreRead) {
  put(zip({{"bf16.npy", npy("{'descr': '<V2', 'fortran_order': False, 'shape': (2,)}")},
           {"fp8.npy", npy("{'descr': '|V1', 'fortran_order': False, 'shape': (4,)}")},
           {"text.npy", npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}")}}));
  const TensorFile unsaid = open_tensors(path_);
  EXPECT_EQ(unsaid.at("bf16").dtype, DType::bf16);
  ASSERT_EQ(unsaid.skipped().size(), 2u);
  EXPECT_EQ(unsaid.skipped()[0].untyped_bits, 8u);
  EXPECT_EQ(unsaid.skipped()[1].untyped_bits, 0u);
  const TensorFile read = open_tensors(path_, {DType::f8_e5m2});
  EXPECT_EQ(read.at("bf16").dtype, DType::bf16) << "of 16 bits, not of 8";
  EXPECT_EQ(read.at("fp8").dtype, DType::f8_e5m2);
}

TEST_F(HostileTensors, AHeaderOfNumPyIsReadToTheLetter) {
  EXPECT_EQ(refused(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }   \n")), "opened");
  EXPECT_EQ(refused(npy("{\"shape\":(2L,2L),\"fortran_order\":True,\"descr\":\"|u1\"}")), "opened");
  EXPECT_EQ(refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}")), "opened");
  const std::pair<const char*, const char*> kWrong[] = {
      {"{'descr': '|u1', 'fortran_order': Falsex, 'shape': (4,), }", "its header is no dict"},
      {"{'descr': '|u1', 'fortran_order': 0, 'shape': (4,), }", "is not of the form"},
      {"{'descr': '|u1', 'fortran_order': , 'shape': (4,), }", "its header is no dict"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4x,), }", "its header is no dict"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (-4,), }", "not a whole number"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (2 2), }", "its header is no dict"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': 4}", "is not of the form"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), 'more': 1}", "is not of the form"},
      {"{'descr': '|u1', 'fortran_order': False, }", "lacks 'shape'"},
      {"{'fortran_order': False, 'shape': (4,), }", "lacks 'descr'"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,)} x", "its header is no dict"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,)", "its header is no dict"},
      {"{'descr': '|u1 , 'fortran_order': False, 'shape': (4,)}", "its header is no dict"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (4,)}", "descr is '|O'"},
      {"{'descr': '=u1', 'fortran_order': False, 'shape': (4,)}", "descr is '=u1'"},
      {"{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", "descr is '|f4'"},
      {"{'descr': '', 'fortran_order': False, 'shape': (4,)}", "descr is ''"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "several fields"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", "holds 4 bytes of data"},
      {"{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }", "--dtype BF16 or F16"}};
  for (const auto& [header, words] : kWrong) EXPECT_TRUE(says(refused(npy(header)), words)) << refused(npy(header));
}

TEST_F(HostileTensors, OldFilesOfPyTorchThatAreCutOffOrNoneOfIt) {
  EXPECT_TRUE(says(refused(std::string("\x80\x02}q\0.", 6)), "not one of torch.save"));
  const std::string legacy = bytes_of("torch2_legacy.pt");
  EXPECT_TRUE(says(refused(legacy.substr(0, legacy.size() - 1)), "truncated"));
  EXPECT_TRUE(says(refused(legacy.substr(0, 100)), "ends too early"));
}

// Pickled values of NumPy, as protocol 2 writes them; `data` must be ASCII or UTF-8 of Latin-1.
std::string dtype(const std::string& name, const std::string& order) {
  return "cnumpy\ndtype\n(" + text(name) + "\x89\x88tR(K\x03" + text(order) + "NNNK\x01K\x01" + std::string("K\0tb", 4);
}
std::string encoded(const std::string& data) {
  return "c_codecs\nencode\n" + text(data) + text("latin1") + "\x86R";
}
std::string array(const std::string& shape, const std::string& type, const std::string& data) {
  return "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + std::string("K\0\x85", 3) + text("b") +
         "tR(K\x01" + shape + type + "\x89" + data + "tb";
}
std::string scalar(const std::string& data) {
  return "cnumpy._core.multiarray\nscalar\n(" + dtype("i2", "<") + encoded(data) + "tR";
}
const std::string kCounter = std::string("ccollections\nCounter\n}(K\0K\x05K\x02K\x07u\x85R", 34);

TEST_F(HostileTensors, ArraysAndCountersInAPickleAreData) {
  const std::string two = "K\x02\x85", bytes = "\xc3\x88" + std::string("\0\0\0p\x11\x01\0", 7);
  put(torch_zip("}(" + text("a") + array(two, dtype("i4", "<"), encoded(bytes)) + text("b") + kCounter + text("c") +
                "}(" + scalar(std::string("\0\0", 2)) + scalar("ab") + "u" + text("d") + "}(" + text("step") +
                "K\x01uu"));
  const TensorFile file = open_tensors(path_);
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.at("a").integers(), (std::vector<std::int64_t>{200, 70000}));
  EXPECT_EQ(file.at("b").integers(), (std::vector<std::int64_t>{5, 0, 7}));
  EXPECT_EQ(file.at("c").integers(), (std::vector<std::int64_t>{'a' + 256 * 'b'}));
  put("\x80\x02" + kCounter + ".");  // pickle.dump
  EXPECT_EQ(open_tensors(path_).tensors()[0].integers(), (std::vector<std::int64_t>{5, 0, 7}));
}

TEST_F(HostileTensors, DamagedArraysInAPickleAreSkipped) {
  const std::string one = "K\x01\x85", i2 = dtype("i2", "<"), large = "\x8a\x06" + number(std::uint64_t{1} << 40, 6);
  const std::pair<std::string, const char*> kWrong[] = {
      {array(one, i2, encoded("abc")), "holds 3 bytes"},
      {array(one, i2, encoded("a\xc3")), "opened"},  // ends within a character
      {array(one, i2, "K\x01"), "holds 0 bytes"},
      {array(one, i2, "c_codecs\nencode\n)R"), "holds 0 bytes"},
      {array(large + "\x85", i2, encoded("ab")), "holds 2 bytes"},
      {array("N", i2, encoded("ab")), "opened"},  // a number
      {array(one, "N", encoded("ab")), "unknown type"},
      {array(one, "cnumpy\ndtype\n)R", encoded("ab")), "unknown type"},
      {array(one, "cnumpy\ndtype\n" + text("i2") + "\x85R", encoded("ab")), "unknown type"},
      {array(one, dtype("O8", "|"), "]"), "descr is '|O8'"},
      {array(text("s") + "\x85", i2, encoded("ab")), "not a whole number"}};
  for (const auto& [pickled, words] : kWrong)
    EXPECT_TRUE(says(refused_in_bounds(torch_zip("}" + text("a") + pickled + "s")), words)) << words;
  std::string pairs = scalar("ab") + std::string("q\0", 2) + scalar(std::string("\0\0", 2)) + "q\x01";
  for (int i = 0; i < 3'000'000; ++i) pairs += std::string("h\1h\0", 4);
  EXPECT_TRUE(says(refused_in_bounds(torch_zip("}(" + pairs + "u")), "more than 256 MiB"));
}

}  // namespace
}  // namespace moescope
