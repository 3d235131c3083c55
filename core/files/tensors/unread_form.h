// Names files and folders in forms of other programs that MoEScope does not read, so that an error can say what they
// are and how to turn them into a form that is read.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

// Returns "is a Parquet file, which is not read: ..." for the file or folder `path`; empty if it is in none of these
// forms. Reads the first bytes of a file, the names in a folder, and the names of the tables of a database.
// Throws std::runtime_error with the path if a file cannot be read.
std::string unread_form(const std::string& path);

// True if these first bytes of a file are no text of any encoding: they have a NUL or other control characters.
bool is_binary(std::string_view bytes);

}  // namespace moescope
