// `/r/ID/about`: the files of a run, its manifest, versions, and the state of its index.

import { request } from "../api";
import { bytes, count, moment } from "../format";
import { useKeys, useReply } from "../hooks";
import { FilePath, Panel, Scrolling, Theirs, TheirBlock } from "../parts/common";
import { runPlace } from "../places";
import type { About, NamedText } from "../replies";
import { go } from "../router";
import { visible } from "../text";
import type { RunView } from "./layout";

export const AboutPage = ({ view }: { view: RunView }) => {
  useKeys({ Escape: () => go(runPlace(view.id)) });
  const reply = useReply(request("about", { run: view.id }), { version: view.version });
  return (
    <>
      <h1 class="small">About this run</h1>
      <Panel reply={reply} class="first">
        {(about) => <Parts about={about} />}
      </Panel>
    </>
  );
};

const Parts = ({ about }: { about: About }) => (
  <>
    <Files about={about} />
    {about.bad_lines_total > 0 && <BadLines about={about} />}
    <div class="columns">
      <Named title="Settings" pairs={about.settings} />
      <Named title="Versions" pairs={about.versions} />
      <Named title="Index" pairs={about.index} />
    </div>
    {about.manifest && (
      <>
        <h2 class="section">Manifest</h2>
        <TheirBlock text={about.manifest} label="Manifest" />
      </>
    )}
  </>
);

const Files = ({ about }: { about: About }) => {
  return (
  <Scrolling label="Files">
    <table>
      <thead>
        <tr>
          <th scope="col">File</th>
          <th scope="col">Path</th>
          <th scope="col" class="n">Size</th>
          <th scope="col">Changed</th>
        </tr>
      </thead>
      <tbody>
        {about.files.map((file) => (
          <tr key={`${file.role} ${file.path}`}>
            <th scope="row">{visible(file.role)}</th>
            <td class="text">
              <FilePath text={file.path} />
            </td>
            <td class="n">{file.bytes === null ? <span class="quiet">not there</span> : bytes(file.bytes)}</td>
            <td class="nowrap">{file.modified_at === null ? "" : moment(file.modified_at)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </Scrolling>
  );
};

const BadLines = ({ about }: { about: About }) => (
  <>
    <h2 class="section">Lines that cannot be read: {count(about.bad_lines_total)}</h2>
    <Scrolling label="Lines that cannot be read">
      <table>
        <thead>
          <tr>
            <th scope="col">File</th>
            <th scope="col" class="n">Line</th>
            <th scope="col">Reason</th>
          </tr>
        </thead>
        <tbody>
          {about.bad_lines.map((line) => (
            <tr key={`${line.file} ${line.line}`}>
              <th scope="row">
                <Theirs text={line.file} />
              </th>
              <td class="n">{count(line.line)}</td>
              <td>{visible(line.reason)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scrolling>
  </>
);

const Named = ({ title, pairs }: { title: string; pairs: readonly NamedText[] }) =>
  pairs.length === 0 ? null : (
    <section>
      <h2>{title}</h2>
      <dl class="fields">
        {pairs.map((pair) => (
          <div key={pair.name}>
            <dt>{visible(pair.name)}</dt>
            <dd>
              <Theirs text={pair.value} limit={400} />
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
