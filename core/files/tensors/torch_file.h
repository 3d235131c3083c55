// Reads tensors that torch.save wrote: a zip archive of a pickle and of the raw bytes of each storage (PyTorch 1.6 and
// later, and TorchScript), or several pickles followed by the storages (before 1.6). Pickles are read, not run
// (pickle.h).
//
// Reads tensors of any strides over storages of plain types: single tensors, parameters, tensors in containers and in
// attributes of objects; also arrays of NumPy, and dicts and Counters of whole numbers by index, in a file of
// pickle.dump as well. Everything else is skipped, with its name: quantized, sparse and nested tensors, subclasses
// whose class computes the values, and results of functions. A DTensor is read if its local part is the whole tensor.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/files/tensors/tensor_file.h"

namespace moescope {

class ZipArchive;

// Tensors in dicts and lists are named by their path, "layers.0.w1"; a single tensor is named like the file without its
// suffix. Throw std::runtime_error "PATH: ..." with the reason and what is allowed.
void read_torch(MappedTensors& file, ZipArchive& archive);
std::shared_ptr<MappedTensors> read_legacy_torch(const std::string& path);

// True if the archive has the data.pkl of torch.save, or if these are the first bytes of a file of PyTorch before 1.6
// or of pickle.dump.
bool is_torch_archive(const ZipArchive& archive);
bool begins_like_pickle(std::string_view bytes);

}  // namespace moescope
