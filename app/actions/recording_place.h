// Chooses the path of a new recording. If nothing can be written there, the run trains without a recording and a
// message says so.
#pragma once

#include <QString>

namespace moescope {

class Messages;

// Path of a new recording of this name (app/session/settings.h); empty: in memory only.
QString recordingPlace(const QString& name, Messages* messages);

}  // namespace moescope
