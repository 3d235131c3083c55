// Pictures of a panel or a workspace for papers and slides, always in the light theme, with title, runs and settings of
// the controls as text. Lines and text are painted again, not copied from the screen.
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
  QByteArray html;  // <svg> element, its ids prefixed with id_prefix
  QImage image;     // image with kPrintScale times the resolution of the screen
};
inline constexpr int kPrintScale = 3;
inline constexpr QSize kLeastPicture{560, 330};

enum class PictureKind { svg, image };

// Picture of an open panel. `size`: size of its plots; invalid: as on screen, at least kLeastPicture.
PrintedPicture panelPicture(Panel* panel, const Selection& selection, PictureKind kind, QSize size = {},
                            const QByteArray& id_prefix = {});
PrintedPicture workspacePicture(Workspace* workspace, const Selection& selection, PictureKind kind);

// `form`: "svg" or "png"; empty: by the path's suffix. Throw std::runtime_error when the file cannot be written.
void savePanelPicture(Panel* panel, const Selection& selection, const QString& path, const QString& form = {},
                      QSize size = {});
void saveWorkspacePicture(Workspace* workspace, const Selection& selection, const QString& path,
                          const QString& form = {});
QByteArray pngOf(const QImage& image);
// The picture (PNG and SVG) and the values (CSV) of a panel for the clipboard.
QMimeData* panelMimeData(Panel* panel, const Selection& selection);

}  // namespace moescope
