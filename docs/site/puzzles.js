// The graphs of the games: puzzles to schedule (beat.js, write.js), and plans to break (break.js). A graph is
// {tasks: [{name, microseconds, width, bytes, after}], streams, capacity, limit}.
'use strict';

/// "a:2 b:3*2@512<a": b takes 3 microseconds, is 2 wide, has a result of 512 bytes, and needs a.
function graph_of(text, streams, capacity = streams, limit = 0) {
  const tasks = text.trim().split(/\s+/).map(task => {
    const [, name, microseconds, width, bytes, after] = task.match(/^(\w+):([\d.]+)(?:\*(\d+))?(?:@(\d+))?(?:<(.*))?$/);
    return {name, microseconds: +microseconds, width: +(width ?? 1), bytes: +(bytes ?? 0), after: after ? after.split(',') : []};
  });
  return {tasks, streams, capacity, limit};
}
const kPuzzles = {
  fork_join: {
    title: 'Fork and join', graph: graph_of('split:1 a:1<split b:2<split c:3<split d:6<split join:1<a,b,c,d', 2),
    idea: 'Four branches of unequal length lie between a fork and a join, as in an inception block. The join waits for the last of them.',
  },
  chains: {
    title: 'Two chains', graph: graph_of('b1:3 a1:2 a2:2<a1 a3:2<a2 a4:2<a3 b2:1<b1 c:2', 2),
    idea: 'A long chain is urgent from its first task on. What is not in it has time.',
  },
  graham: {
    title: 'Graham’s anomaly', graph: graph_of('t1:3 t2:2 t3:2 t4:2 t5:4<t4 t6:4<t4 t7:4<t4 t8:4<t4 t9:9<t1', 4),
    idea: 'Graham’s example of 1969. Whenever a stream is free, the next task of the list that is ready starts: three streams take 12 µs. ' +
        'The same rule on four streams takes 15 µs. Do better on four.',
  },
  wide: {
    title: 'Wide against narrow', graph: graph_of('a:4 b:2*2 wide:4*3 c:2*2 d:4*2 e:2*2<wide', 3, 4),
    idea: 'The machine has four units, and a task holds as many as it is wide. Which of them fit together?',
  },
  patience: {
    title: 'Patience', graph: graph_of('first:1 wide:4*2<first last:4<wide long:6', 2),
    idea: 'A task that is ready may still be the wrong one to start. The wide task needs both units at once.',
  },
  backward: {
    title: 'Backward', graph: graph_of('f1:1 f2:2<f1 f3:2<f2 d3:2<f3 w3:2<f3 d2:2<d3 w2:2<d3 w1:1<d2 u3:1<w3 u2:1<w2 u1:1<w1', 2),
    idea: 'A network of three layers trains: f is the forward pass, d the gradient of a layer’s input, w that of its weights, u their update. ' +
        'Only the d’s hold up other layers.',
  },
  inception: {
    title: 'An inception block',
    graph: graph_of('stem:1 one:3*2<stem r3:1<stem three:5*2<r3 r5:1<stem five:3*2<r5 pool:2<stem proj:1<pool cat:1<one,three,five,proj',
                    3, 4),
    idea: 'GoogLeNet’s block: four branches of convolutions, some of which take half of the machine, and their concatenation.',
  },
  memory: {
    title: 'Too little memory', graph: graph_of('in:1@256 a:2@1024<in x:1@256<a b:2@1024<in y:1@256<b c:3<in out:1@256<x,y,c', 3, 3, 2048),
    idea: 'The results have to fit into 2048 bytes, and a and b are large. Bytes are free again once the last reader has finished.',
  },
};

const kPlans = {
  block: {
    title: 'An inception block', policy: 'matching',
    graph: graph_of('stem:1@512 one:3@512<stem r3:1@256<stem three:4@768<r3 r5:1@256<stem five:3@512<r5 cat:1@2048<one,three,five ' +
                    'head:2@256<cat', 3),
    idea: 'The planner’s plan of a small inception block. Every wait in it is necessary, and results share bytes where the waits allow.',
  },
  chains: {
    title: 'Bytes used again', policy: 'matching',
    graph: graph_of('a:2@512 b:3@512<a c:2@512<b d:2@512<c x:2@512<a y:3@512<x z:2@512<y out:1@256<d,z', 2),
    idea: 'Two chains between a fork and a join. Few bytes serve many results, one after another.',
  },
  redundant: {
    title: 'Find all redundant waits', policy: 'critical_path', full: true,
    graph: graph_of('a:1@256 b:2@512<a c:3@256<a d:3@256<a e:2@256<a,b,c f:3@512<a,c,d g:2@256<a,b,d h:2@256<b,e,f ' +
                    'i:2@256<c,f,g j:1@256<d,h,i,g', 3),
    idea: 'A wait for every edge between streams, as a cautious programmer would write. Delete as many as the verifier accepts.',
  },
};
