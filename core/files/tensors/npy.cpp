#include "core/files/tensors/npy.h"

#include <cctype>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "core/io/text_escape.h"

namespace moescope {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 20;

[[noreturn]] void refuse_npy(const std::string& what) {
  throw std::runtime_error(what);
}

struct Descr {
  std::string_view name;
  DType dtype;
};
constexpr Descr kDescrs[] = {{"<f8", DType::f64}, {"<f4", DType::f32}, {"<f2", DType::f16}, {"<i8", DType::i64},
                             {"<i4", DType::i32}, {"<i2", DType::i16}, {"|i1", DType::i8},  {"<u8", DType::u64},
                             {"<u4", DType::u32}, {"<u2", DType::u16}, {"|u1", DType::u8},  {"|b1", DType::boolean}};

// What follows the key in the header, a Python dict of three entries.
std::string_view after(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) refuse_npy("header has no " + std::string(key));
  std::string_view rest = header.substr(at + key.size());
  while (!rest.empty() && (rest.front() == ' ' || rest.front() == ':')) rest.remove_prefix(1);
  return rest;
}

DType dtype_of(std::string_view header) {
  const std::string_view rest = after(header, "'descr'");
  const std::string_view given = rest.starts_with('\'') ? rest.substr(1, rest.find('\'', 1) - 1) : rest.substr(0, 40);
  std::string allowed;
  for (const Descr& descr : kDescrs) {
    if (descr.name == given) return descr.dtype;
    allowed += (allowed.empty() ? "" : ", ") + std::string(descr.name);
  }
  refuse_npy("descr is '" + printable(std::string(given)) + "'; allowed: " + allowed);
}

std::vector<std::size_t> shape_of(std::string_view header) {
  std::string_view rest = after(header, "'shape'");
  const std::size_t end = rest.find(')');
  if (!rest.starts_with('(') || end == std::string_view::npos) refuse_npy("header's shape is no tuple");
  rest = rest.substr(1, end - 1);
  std::vector<std::size_t> shape;
  while (!rest.empty()) {
    if (rest.front() == ' ' || rest.front() == ',') {
      rest.remove_prefix(1);
      continue;
    }
    std::size_t size = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error != std::errc{}) refuse_npy("header's shape holds what is no whole number from 0 on");
    shape.push_back(size);
    rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
  }
  return shape;
}

}  // namespace

NpyHeader npy_header(std::string_view bytes) {
  if (bytes.size() < 12 || !bytes.starts_with(kMagic)) refuse_npy("does not begin like an .npy file");
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) refuse_npy("is .npy of version " + std::to_string(version) + "; allowed: 1 to 3");
  const std::size_t header_at = version == 1 ? 10 : 12;
  const std::size_t header_bytes =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (header_bytes > kMostHeaderBytes) refuse_npy("its header claims " + std::to_string(header_bytes) + " bytes");
  if (bytes.size() < header_at + header_bytes) refuse_npy("ends in its header");
  const std::string_view header = bytes.substr(header_at, header_bytes);
  if (!after(header, "'fortran_order'").starts_with("False"))
    refuse_npy("is stored column by column; numpy.save(path, numpy.ascontiguousarray(array)) stores rows");
  return {dtype_of(header), shape_of(header), header_at + header_bytes};
}

TensorFile read_npy(const std::string& path) {
  auto file = std::make_shared<MappedTensors>(path);
  const std::string begin = file->copied(0, std::min<std::size_t>(file->bytes, 12 + kMostHeaderBytes));
  NpyHeader header;
  try {
    header = npy_header(begin);
  } catch (const std::runtime_error& problem) {
    file->fail(problem.what());
  }
  TensorView tensor{std::filesystem::path(path).stem().string(), header.dtype, std::move(header.shape), {}};
  const auto needed = tensor_bytes(tensor.dtype, tensor.shape);
  const std::size_t held = file->bytes - header.data_at;
  if (!needed || *needed != held)
    file->fail("holds " + std::to_string(held) + " bytes of data, but shape " + shape_text(tensor.shape) + " of " +
               dtype_name(tensor.dtype) + " needs " + (needed ? std::to_string(*needed) : "2^64 and more") +
               " (is it truncated?)");
  tensor.bytes = {file->data + header.data_at, held};
  file->tensors.push_back(std::move(tensor));
  file->index_names();
  return TensorFile(std::move(file));
}

}  // namespace moescope
