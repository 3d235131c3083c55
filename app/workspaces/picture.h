// Pictures of a panel or a workspace for papers and slides, always in the light theme. Title, runs and the settings of
// the controls are text. Lines and text are painted anew, not copied from the screen.
#pragma once

#include <QByteArray>
#include <QImage>
#include <QMimeData>
#include <QString>

#include "widgets/panel/panel.h"

namespace moescope {

class Workspace;

struct PrintedPicture {
  QByteArray svg;   // an SVG document
  QByteArray html;  // an <svg> element, whose ids begin with id_prefix
  QImage image;     // image with kPrintScale times the resolution of the screen
};
inline constexpr int kPrintScale = 3;
inline constexpr QSize kMinPicture{560, 330};

enum class PictureKind { svg, image };

// Returns the picture of an open panel. `size`: size of its plots; invalid: as on screen, but at least kMinPicture.
PrintedPicture panelPicture(Panel* panel, const Selection& selection, PictureKind kind, QSize size = {},
                            const QByteArray& id_prefix = {});
PrintedPicture workspacePicture(Workspace* workspace, const Selection& selection, PictureKind kind);

// `form`: "svg" or "png"; empty: according to the path's suffix. Throw std::runtime_error if the file cannot be
// written.
void savePanelPicture(Panel* panel, const Selection& selection, const QString& path, const QString& form = {},
                      QSize size = {});
void saveWorkspacePicture(Workspace* workspace, const Selection& selection, const QString& path,
                          const QString& form = {});
QByteArray pngOf(const QImage& image);
// Returns the picture (PNG and SVG) and the values (CSV) of a panel, for the clipboard.
QMimeData* panelMimeData(Panel* panel, const Selection& selection);

}  // namespace moescope
