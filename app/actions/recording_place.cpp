#include "app/actions/recording_place.h"

#include <stdexcept>

#include "app/look/messages.h"
#include "app/session/settings.h"

namespace moescope {

QString recordingPlace(const QString& name, Messages* messages) {
  try {
    return newRecordingPath(name);
  } catch (const std::runtime_error& why) {
    messages->say(QString("Not recorded, the run is in memory only: %1").arg(why.what()), 20000);
    return {};
  }
}

}  // namespace moescope
