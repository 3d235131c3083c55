// Opens standard input, output and error if the program was started with them closed.
#pragma once

namespace moescope {

// Call it before any file is opened: otherwise a file could become one of the three streams, and messages would be
// written into it. Reading and writing a stream that was closed fails, as before.
void keep_standard_streams();

}  // namespace moescope
