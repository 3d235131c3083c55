// Where a run is recorded. Where nothing can be written it trains all the same, and the person is told.
#pragma once

#include <QString>

namespace moescope {

class Messages;

// A new recording of this name (app/session/settings.h); empty: in memory only.
QString recordingPlace(const QString& name, Messages* messages);

}  // namespace moescope
