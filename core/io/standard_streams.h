// Standard input, output and error as a program may find them: closed.
#pragma once

namespace moescope {

// To be called before any file is opened, which would else become one of the three and be written to by every message.
// A stream that is closed reads and writes nothing; writing to it fails, as it does where it is closed.
void keep_standard_streams();

}  // namespace moescope
