// Answers a request a line with a line each, as the page's worker does: node playground.js SITE
'use strict';
const fs = require('fs'), zlib = require('zlib');
const {load_planner, packed} = require(`${process.argv[2]}/planner.js`);
const {read_opened} = require(`${process.argv[2]}/files.js`);
const planner = load_planner(zlib.gunzipSync(Buffer.from(packed(), 'base64')));
for (const line of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  const {call, ...request} = JSON.parse(line), begin = performance.now();
  let answer;
  try {
    answer = {result: call === 'open' ? read_opened(request.name, request.text) : planner[call](request)};
  } catch (error) {
    answer = {error: error.message};
  }
  console.log(JSON.stringify({...answer, milliseconds: performance.now() - begin}));
}
