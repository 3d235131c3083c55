// Tensors that torch.save wrote: a zip archive of a pickle and of the raw bytes of each storage (PyTorch 1.6 and later,
// and TorchScript), or one pickle after another and then the storages (before 1.6). Pickles are read and not run
// (pickle.h).
//
// Read are tensors of any strides over storages of plain types, alone, as parameters, in containers and in the
// attributes of objects. Everything else is skipped by name: quantized, sparse and nested tensors, subclasses whose
// values their class computes, what functions would make. A DTensor is read where its local part is the whole.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/tensors/tensor_file.h"

namespace moescope {

class ZipArchive;

// Tensors in dicts and lists are named by the way to them, "layers.0.w1"; a tensor alone is named like the file without
// its suffix. Throw std::runtime_error "PATH: ..." with what is wrong and what is allowed.
void read_torch(MappedTensors& file, ZipArchive& archive);
std::shared_ptr<MappedTensors> read_legacy_torch(const std::string& path);

// Whether an archive is one of torch.save, and a file that begins so one of PyTorch before 1.6 or of pickle.dump.
bool is_torch_archive(const ZipArchive& archive);
bool begins_like_pickle(std::string_view bytes);

}  // namespace moescope
