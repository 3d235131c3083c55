// The entries of a zip archive that are stored as they are: where their bytes lie in the file. Archives of more than 4
// GB (zip64) are read, too. Format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/files/tensors/tensor_file.h"

namespace moescope {

struct ZipEntry {
  std::string name;
  std::size_t first = 0, bytes = 0;  // in the file
};

// Throws std::runtime_error "PATH: ...": no archive, damaged, or an entry that is compressed.
std::vector<ZipEntry> zip_entries(const MappedTensors& file);

}  // namespace moescope
